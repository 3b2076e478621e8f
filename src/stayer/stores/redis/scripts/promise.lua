-- Cluster: keep unique words for tasks that come all or none.
-- ARGV   3 the nonce of their claims, 4 the queue; the rest: id, word, …
-- returns nil, or {task, its holder} of one whose word is held, or {task, its holder, the promise} of one whose word
--         is promised
-- needs: base, record, lines, tasks, unique

for number = 5, #ARGV, 2 do
  local id, word = ARGV[number], ARGV[number + 1]
  local holder = holder_of(ARGV[4], word, id)
  if holder then return {id, holder.r[ID]} end
  local other = call('HGET', key_promised(), word)
  if other then
    local nonce, name = string.match(other, '^(%S+) (.*)$')
    if nonce ~= ARGV[3] or name ~= id then return {id, name, nonce} end
  end
  call('HSET', key_promised(), word, ARGV[3] .. ' ' .. id)
end
return false
