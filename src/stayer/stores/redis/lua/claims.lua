-- What is claimed on a cluster: which queue has an id.

-- script: find_claim
-- Cluster: the claim on an id.
-- ARGV   3 the id
-- returns {queue or nil, nonce, task or nil, plan or nil}
-- only reads
-- include: base

return call('HMGET', @claim(ARGV[3]), 'queue', 'nonce', 'task', 'plan')

-- script: claim
-- Cluster: claim an id for a queue, unless it is claimed.
-- ARGV   3 the id, 4 the queue, 5 a nonce, 6 the task, or '' if it need not come, 7 the plan that it comes with, or ''
-- returns nil, or the claim that is there: {queue, nonce, task or nil, plan or nil}
-- to be confirmed by replicas: what was accepted must be found by its id
-- include: empty_writes

local key = @claim(ARGV[3])
local there = call('HMGET', key, 'queue', 'nonce', 'task', 'plan')
if there[1] then
  write_something(key)
  return there
end
call('HSET', key, 'queue', ARGV[4], 'nonce', ARGV[5])
if ARGV[6] ~= '' then call('HSET', key, 'task', ARGV[6]) end
if ARGV[7] ~= '' then call('HSET', key, 'plan', ARGV[7]) end
return false

-- script: take_claim
-- Cluster: take over the claim of a task that is gone.
-- ARGV   3 the id, 4 the nonce that was seen, 5 the queue, 6 a nonce, 7 the task, 8 the plan that it comes with, or ''
-- returns 1, or 0 if the claim is another one by now
-- to be confirmed by replicas: what was accepted must be found by its id
-- include: base

local key = @claim(ARGV[3])
if call('HGET', key, 'nonce') ~= ARGV[4] then return 0 end
call('HSET', key, 'queue', ARGV[5], 'nonce', ARGV[6], 'task', ARGV[7])
if ARGV[8] ~= '' then call('HSET', key, 'plan', ARGV[8]) else call('HDEL', key, 'plan') end
call('PERSIST', key)
return 1

-- script: settle_claim
-- Cluster: the task of a claim is there, so the claim need not keep it.
-- ARGV   3 the id, 4 the nonce of the claim
-- returns 1 if it was this claim, else 0
-- include: base

local key = @claim(ARGV[3])
if call('HGET', key, 'nonce') ~= ARGV[4] then return 0 end
call('HDEL', key, 'task', 'plan')
return 1

-- script: release_claim
-- Cluster: nothing comes of a claim that belongs to a plan.
-- ARGV   3 the id, 4 the nonce of the claim
-- returns 1 if it was this claim, else 0
-- include: base

local nonce, plan = unpack(call('HMGET', @claim(ARGV[3]), 'nonce', 'plan'))
if nonce ~= ARGV[4] or not plan then return 0 end
return call('DEL', @claim(ARGV[3]))

-- script: expire_claim
-- Cluster: the task of a claim is gone, so the claim may go when nobody remembers the id.
-- ARGV   3 the id, 4 the nonce that was seen while the task was there
-- returns 1, or 0 if the claim is another one by now
-- include: base

local key = @claim(ARGV[3])
if call('HGET', key, 'nonce') ~= ARGV[4] then return 0 end
return call('EXPIRE', key, @REMEMBERED)
