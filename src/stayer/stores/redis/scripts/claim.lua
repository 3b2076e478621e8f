-- Cluster: claim an id for a queue, unless it is claimed.
-- ARGV   3 the id, 4 the queue, 5 a nonce, 6 the task, or '' if it need not come, 7 the plan that it comes with, or ''
-- returns nil, or the claim that is there: {queue, nonce, task or nil, plan or nil}
-- to be confirmed by replicas: what was accepted must be found by its id
-- needs: base

local key = key_claim(ARGV[3])
local there = call('HMGET', key, 'queue', 'nonce', 'task', 'plan')
if there[1] then
  write_something(key)
  return there
end
call('HSET', key, 'queue', ARGV[4], 'nonce', ARGV[5])
if ARGV[6] ~= '' then call('HSET', key, 'task', ARGV[6]) end
if ARGV[7] ~= '' then call('HSET', key, 'plan', ARGV[7]) end
return false
