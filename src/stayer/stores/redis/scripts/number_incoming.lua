-- Cluster: give ids to the oldest items that came in from outside, in the step in which they leave the list.
-- ARGV   the rest: ids, for as many as there are
-- returns {how many there are in all, those that somebody has to see to, oldest first: `id item` …}
-- to be confirmed by replicas: a task must not come under two ids
-- needs: base

local wanted = #ARGV - 2
local newest = tonumber(call('ZREVRANGE', key_taken(), 0, 0, 'WITHSCORES')[2] or 0)
for number = call('ZCARD', key_taken()) + 1, wanted do
  local item = call('RPOP', key_incoming())
  if not item then break end
  newest = newest + 1
  call('ZADD', key_taken(), newest, ARGV[2 + number] .. ' ' .. item)
end
local found = wanted > 0 and call('ZRANGE', key_taken(), 0, wanted - 1) or {}
if #found > 0 then write_something(key_taken()) end
table.insert(found, 1, call('LLEN', key_incoming()) + call('ZCARD', key_taken()))
return found
