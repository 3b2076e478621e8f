-- Cluster: no other shard needs these tasks, as long as no more listen to them; believed for a minute.
-- ARGV   the rest: id, how many had listened to it before the others were asked, …
-- returns nothing
-- needs: base

local BELIEVED = 60
for number = 3, #ARGV, 2 do
  local key = key_listeners(ARGV[number])
  if call('EXISTS', key) == 1 then call('HSET', key, 'free', ARGV[number + 1], 'until', exact(now + BELIEVED)) end
end
return false
