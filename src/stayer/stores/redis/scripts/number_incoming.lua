-- Cluster: give ids to the oldest items that came in from outside, in the step in which they leave the list.
-- ARGV   3 how many bytes an item may have, and about all that are answered, 4 how much is shown of a longer one;
--        the rest: ids, for as many as there are
-- returns {how many there are in all, the length of the next one if it is too long, or 0, its beginning, those that
--         somebody has to see to, oldest first: `id item` …}
-- to be confirmed by replicas: a task must not come under two ids
-- needs: base

local most, first, wanted = tonumber(ARGV[3]), 4, #ARGV - 4
local known = call('ZCARD', key_taken())
local left, found, long = most, {}, nil

-- Whether there is room for as many bytes; for the first there always is.
local function fits(size)
  if size > left and #found > 0 then return false end
  left = left - size
  return true
end

for rank = 0, math.min(known, wanted) - 1 do
  local item = call('ZRANGE', key_taken(), rank, rank)[1]
  if not fits(#item) then break end
  found[#found + 1] = item
end
if #found == known then
  local newest = tonumber(call('ZREVRANGE', key_taken(), 0, 0, 'WITHSCORES')[2] or 0)
  for number = known + 1, wanted do
    local item = call('LINDEX', key_incoming(), -1)
    if item and #item > most then long = item end
    if not item or long or not fits(#item) then break end
    newest = newest + 1
    found[number] = ARGV[first + number] .. ' ' .. item
    call('ZADD', key_taken(), newest, found[number])
    call('RPOP', key_incoming())
  end
end
if #found > 0 then write_something(key_taken()) end
local count = call('LLEN', key_incoming()) + call('ZCARD', key_taken())
return {count, long and #long or 0, long and string.sub(long, 1, tonumber(ARGV[4])) or '', unpack(found)}
