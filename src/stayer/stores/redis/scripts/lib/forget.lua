-- Deleting a task with all that belongs to it. The id of one that had ended stays refused.

local function forget(entry)
  local r = entry.r
  local id = r[ID]
  touch(entry)
  if r[FINISHED_AT] then
    call('SET', key_purged(id),
         cmsgpack.pack({r[QUEUE], r[STATE], r[CREATED], r[FINISHED_AT], now}), 'EX', REMEMBERED)
  end
  local keys = {key_task(id), key_parameters(id), key_result(id), key_history(id), key_checkpoint(id)}
  for attempt = 1, r[ATTEMPT] do
    keys[#keys + 1] = key_log(attempt, id)
    keys[#keys + 1] = key_usage(attempt, id)
    if #keys >= PART then
      call('UNLINK', unpack(keys))
      keys = {}
    end
  end
  if #keys > 0 then call('UNLINK', unpack(keys)) end
  note_event(id, r[QUEUE], 'deleted', r[ATTEMPT], false, false)
  if RUNNING[r[STATE]] then wake(r[QUEUE]) end
  entry.gone = true
  entries[id] = false
end
