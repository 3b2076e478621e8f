-- Store.failures: what is shown of the faults of a queue.
-- ARGV   3 the queue, 4 the length of a step, 5 how many; the rest: fingerprints
-- returns {{the task that failed last, or nothing, how many in each step up to now, the oldest first}, …}
-- needs: base

local queue, step, steps = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local found = {}
for number = 6, #ARGV do
  local key = key_failed(queue, ARGV[number])
  local newest = call('ZRANGE', key, -1, -1)[1]
  local counts = {}
  for ago = steps, 1, -1 do
    counts[#counts + 1] = call('ZCOUNT', key, '(' .. exact(now - ago * step), exact(now - (ago - 1) * step))
  end
  found[#found + 1] = {newest and call('GET', key_task(newest)) or false, counts}
end
return found
