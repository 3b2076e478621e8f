-- Cluster: give ids to the oldest items that came in from outside, in the step in which they leave the list.
-- ARGV   the rest: ids, for as many as there are
-- returns {how many there are in all, those that somebody has to see to, oldest first: `id item` …}
-- to be confirmed by replicas: a task must not come under two ids
-- needs: base

local wanted = #ARGV - 2
local taken = call('LLEN', key_taken())
for number = taken + 1, wanted do
  local item = call('RPOP', key_incoming())
  if not item then break end
  call('RPUSH', key_taken(), ARGV[2 + number] .. ' ' .. item)
end
local found = wanted > 0 and call('LRANGE', key_taken(), 0, wanted - 1) or {}
table.insert(found, 1, call('LLEN', key_incoming()) + call('LLEN', key_taken()))
return found
