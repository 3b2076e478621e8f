-- Cluster: how tasks are that others wait for in other shards.
-- ARGV   the rest: ids
-- returns the state of each, or the one in which it was purged, or nil
-- needs: base, record, lines, tasks, ends

local found = {}
for number = 3, #ARGV do found[#found + 1] = known_state(ARGV[number]) or false end
return found
