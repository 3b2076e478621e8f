-- What failed, by fault.

-- script: failures
-- Store.failures: how many tasks failed of each fault, and when.
-- ARGV   the rest: queues, or nothing for all
-- returns {fingerprint, queue, how many, when the first, when the last failed, …}
-- only reads
-- include: base

local queues = {unpack(ARGV, 3)}
if #queues == 0 then queues = call('SMEMBERS', @queues()) end
local found = {}
for _, queue in ipairs(queues) do
  for _, fingerprint in ipairs(call('SMEMBERS', @faults(queue))) do
    local key = @failed(queue, fingerprint)
    local first, last = call('ZRANGE', key, 0, 0, 'WITHSCORES'), call('ZRANGE', key, -1, -1, 'WITHSCORES')
    if first[1] then
      for _, each in ipairs({fingerprint, queue, call('ZCARD', key), first[2], last[2]}) do
        found[#found + 1] = each
      end
    end
  end
end
return found

-- script: fault
-- Store.failures: what is shown of the faults of a queue.
-- ARGV   3 the queue, 4 the length of a step, 5 how many; the rest: fingerprints
-- returns {{the task that failed last, or nothing, how many in each step up to now, the oldest first}, …}
-- only reads
-- include: base

local queue, step, steps = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = {}
for number = 6, #ARGV do
  local key = @failed(queue, ARGV[number])
  local newest = call('ZRANGE', key, -1, -1)[1]
  local counts = {}
  for ago = steps, 1, -1 do
    counts[#counts + 1] = call('ZCOUNT', key, '(' .. exact(now - ago * step), exact(now - (ago - 1) * step))
  end
  found[#found + 1] = {newest and call('GET', @task(newest)) or false, counts}
end
return found
