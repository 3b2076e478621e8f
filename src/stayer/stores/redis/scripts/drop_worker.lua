-- Store.drop_worker: bury one on somebody's word.
-- ARGV   3 the worker, 4 its last number, or '' if it does not speak for itself
-- returns {values, kept apart} of what it held, or the errors UNKNOWN, LEASELOST, REFUSED (and the
--         seconds that are left of its lease)
-- to be confirmed by replicas: what was taken from the dead must not be theirs again
-- needs: base, record, lines, tasks, bury

local known = call('HMGET', key_worker(ARGV[3]), 'number', 'lease_end', 'dead')
if not known[1] then return redis.error_reply('UNKNOWN worker') end
if ARGV[4] ~= '' and ARGV[4] ~= known[1] then
  return redis.error_reply('LEASELOST its identity is used elsewhere')
end
if ARGV[4] == '' and not known[3] and tonumber(known[2]) >= now then
  return redis.error_reply('REFUSED ' .. exact(tonumber(known[2]) - now))
end
local held = held_by(ARGV[3])
mark_dead(ARGV[3])
forget_idle_dead()
return {shown(held)}
