-- Store.workers: all that are not buried.
-- returns {now, {fields and values of the hash, id, how many tasks it holds}, …}
-- needs: base

local found = {exact(now)}
for _, worker in ipairs(call('SMEMBERS', key_workers())) do
  if call('SISMEMBER', key_dead(), worker) == 0 then
    local said = call('HGETALL', key_worker(worker))
    if #said > 0 then found[#found + 1] = {said, worker, call('SCARD', key_held(worker))} end
  end
end
return found
