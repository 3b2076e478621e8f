-- Store.holdings: what a worker holds.
-- ARGV   3 the worker
-- returns {values, kept apart}
-- needs: base, record, lines, tasks, bury

return {shown(held_by(ARGV[3]))}
