-- Cluster: the lobby knows the worker no more, or as dead: so it is dead in this shard. One that has beaten here without
-- the lobby may believe in a lease of which the judge has seen nothing: it is refused from now on, and what it
-- holds is its own until that lease is over for certain.
-- ARGV   3 the worker, 4 1 if a lease has passed since it was first refused here
-- returns {values, kept apart} of what it still holds, or {0, 0, its lease}: come again when that has passed
-- to be confirmed by replicas: what was taken from the dead must not be theirs again
-- needs: base, record, lines, tasks, bury

local key = key_worker(ARGV[3])
local known = call('HMGET', key, 'alone', 'lease')
if known[1] == '1' and ARGV[4] ~= '1' and call('SCARD', key_held(ARGV[3])) > 0 then
  call('HSET', key, 'dead', 1)
  return {0, 0, known[2]}
end
mark_dead(ARGV[3])
forget_idle_dead()
return {shown(held_by(ARGV[3]))}
