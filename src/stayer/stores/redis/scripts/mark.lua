-- What a waiter compares: the numbers of the last wake-up of its queues and of its worker, and
-- whether something came in from outside.
-- ARGV   3 the worker, or ''; the rest: queues
-- returns {number of the worker or nil, how many came in, what tells this store from others or nil, number of
-- each queue or nil …}
-- needs nothing of lib/base.lua: each idle worker asks this every few seconds

local call = redis.call
local marks = {ARGV[3] ~= '' and call('HGET', key_worker(ARGV[3]), 'wakes'), 0, false}
if #KEYS == 0 then marks[3] = call('HGET', key_meta(), 'identity') end
if #ARGV > 3 then marks[2] = call('LLEN', key_incoming()) end
for number = 4, #ARGV do marks[number] = call('HGET', key_queue(ARGV[number]), 'wakes') end
return marks
