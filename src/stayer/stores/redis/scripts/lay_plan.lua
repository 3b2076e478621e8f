-- Cluster: begin to submit tasks that come all or none, unless somebody is doing that under this name.
-- ARGV   3 the name, 4 a nonce, 5 what it is about (MessagePack)
-- returns nil, or the plan that is there: {nonce, status, what it is about}
-- needs: base

local key = key_plan(ARGV[3])
local there = call('HMGET', key, 'nonce', 'status', 'about')
if there[1] then return there end
call('HSET', key, 'nonce', ARGV[4], 'status', 'open', 'about', ARGV[5])
return false
