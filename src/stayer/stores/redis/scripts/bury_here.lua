-- Cluster: the lobby knows the worker no more, or as dead: so it is dead in this shard.
-- ARGV   3 the worker
-- returns {values, kept apart} of what it still holds
-- to be confirmed by replicas: what was taken from the dead must not be theirs again
-- needs: base, record, lines, tasks, bury

mark_dead(ARGV[3])
forget_idle_dead()
return {shown(held_by(ARGV[3]))}
