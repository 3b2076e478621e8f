-- Store.workers: all that are not buried.
-- returns {now, {fields and values of the hash, id, how many tasks it holds}, …}
-- needs: base

local found = {exact(now)}
for _, worker in ipairs(call('SMEMBERS', key_workers())) do
  if call('SISMEMBER', key_dead(), worker) == 0 then
    found[#found + 1] = {call('HGETALL', key_worker(worker)), worker, call('SCARD', key_held(worker))}
  end
end
return found
