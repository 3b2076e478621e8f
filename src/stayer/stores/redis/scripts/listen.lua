-- Cluster: let another shard hear of the ends of tasks in this one, and see how they are.
-- ARGV   3 its queue; the rest: id, whether it may still have to come (1 or 0), …
-- returns the state of each, or the one in which it was purged, or nil
-- to be confirmed by replicas: what waits must hear of it
-- needs: base, record, lines, tasks, ends

local found = {}
for number = 4, #ARGV, 2 do
  local id = ARGV[number]
  local entry = fetch(id)
  if entry or ARGV[number + 1] == '1' then
    call('HSET', key_listeners(id), '@' .. ARGV[3], 1)
    call('HINCRBY', key_listeners(id), 'heard', 1)
  end
  if entry and not entry.r[DEPENDENTS] then
    touch(entry)
    entry.r[DEPENDENTS] = true
  end
  found[#found + 1] = known_state(id) or false
end
flush()
return found
