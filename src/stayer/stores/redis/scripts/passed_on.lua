-- Cluster: all shards that listen have been told of these ends.
-- ARGV   the rest: id, the note that was seen, …
-- returns how many notes of ends there are now
-- needs: base, record, lines, tasks, ends

for number = 3, #ARGV, 2 do
  local id = ARGV[number]
  if call('HGET', key_afar(), id) == ARGV[number + 1] then
    call('HDEL', key_afar(), id)
    if call('EXISTS', key_task(id)) == 0 then call('DEL', key_listeners(id)) end
  end
end
return open_notes()
