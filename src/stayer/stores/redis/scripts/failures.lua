-- Store.failures: how many tasks failed of each fault, and when.
-- ARGV   the rest: queues, or nothing for all
-- returns {fingerprint, queue, how many, when the first, when the last failed, …}
-- needs: base

local queues = {unpack(ARGV, 3)}
if #queues == 0 then queues = call('SMEMBERS', key_queues()) end
local found = {}
for _, queue in ipairs(queues) do
  for _, fingerprint in ipairs(call('SMEMBERS', key_faults(queue))) do
    local key = key_failed(queue, fingerprint)
    local first, last = call('ZRANGE', key, 0, 0, 'WITHSCORES'), call('ZRANGE', key, -1, -1, 'WITHSCORES')
    if first[1] then
      for _, each in ipairs({fingerprint, queue, call('ZCARD', key), first[2], last[2]}) do
        found[#found + 1] = each
      end
    end
  end
end
return found
