-- Cluster: some of the tasks that are to be forgotten unless others in other shards need them.
-- ARGV   3 how many
-- returns {id, how many have listened to it, queues …} of each
-- needs: base

local found = {}
for number, id in ipairs(call('SPOP', key_asked(), ARGV[3])) do
  local fields = call('HGETALL', key_listeners(id))
  local one = {id, '0'}
  for at = 1, #fields, 2 do
    if fields[at] == 'heard' then one[2] = fields[at + 1] end
    if string.sub(fields[at], 1, 1) == '@' then one[#one + 1] = string.sub(fields[at], 2) end
  end
  found[number] = one
end
return found
