-- Cluster: take over the claim of a task that is gone.
-- ARGV   3 the id, 4 the nonce that was seen, 5 the queue, 6 a nonce, 7 the task, 8 the plan that it comes with, or ''
-- returns 1, or 0 if the claim is another one by now
-- to be confirmed by replicas: what was accepted must be found by its id
-- needs: base

local key = key_claim(ARGV[3])
if call('HGET', key, 'nonce') ~= ARGV[4] then return 0 end
call('HSET', key, 'queue', ARGV[5], 'nonce', ARGV[6], 'task', ARGV[7])
if ARGV[8] ~= '' then call('HSET', key, 'plan', ARGV[8]) else call('HDEL', key, 'plan') end
call('PERSIST', key)
return 1
