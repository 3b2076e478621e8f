-- Cluster: something has become of tasks in another shard that tasks of this one may wait for.
-- ARGV   the rest: id, whether it is gone (1 or 0), …
-- returns how many notes of ends there are now
-- needs: base, record, lines, tasks, ends

for number = 3, #ARGV, 2 do
  local id = ARGV[number]
  if call('EXISTS', key_waiters(id)) == 1 then note_unknown(id) end
  if ARGV[number + 1] == '1' then call('UNLINK', key_dependents(id)) end
end
return open_notes()
