-- Store.drain_worker: let the beats of a worker say that it is to take no more.
-- ARGV   3 the worker
-- returns {now, {fields and values of the hash, id, how many tasks it holds}}, or the error UNKNOWN
-- needs: base

local worker = ARGV[3]
local key = key_worker(worker)
local known = call('HMGET', key, 'number', 'dead', 'drain')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN worker') end
if not known[3] then
  call('HSET', key, 'drain', 1)
  publish(key_orders(worker), call('HINCRBY', key, 'wakes', 1))
end
return {exact(now), {call('HGETALL', key), worker, call('SCARD', key_held(worker))}}
