-- Store.bury: mark silent workers as dead, and show what all the dead still hold.
-- ARGV   3 the judge, 4 the workers with their last numbers (MessagePack: {worker, number, …})
-- returns {values, kept apart}, or the error LEASELOST
-- to be confirmed by replicas: what was taken from the dead must not be theirs again
-- needs: base, record, lines, tasks, bury

local judge = call('HMGET', key_worker(ARGV[3]), 'number', 'dead')
if not judge[1] or judge[2] then
  return redis.error_reply('LEASELOST the judge is not registered, or was buried')
end
local silent = cmsgpack.unpack(ARGV[4])
for number = 1, #silent, 2 do
  if tonumber(call('HGET', key_worker(silent[number]), 'number') or 0) == silent[number + 1] then
    mark_dead(silent[number])
  end
end
forget_idle_dead()
local lost = {}
for _, worker in ipairs(call('SMEMBERS', key_dead())) do
  for _, entry in ipairs(held_by(worker)) do lost[#lost + 1] = entry end
end
return {shown(lost)}
