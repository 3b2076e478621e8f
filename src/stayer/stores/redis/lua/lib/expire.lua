-- The end of a task that nobody has started in time: what `decide(task, Expire())` says.
-- include: tasks, history, ends, notices

local function expire(entry)
  touch(entry)
  local r = entry.r
  r[@STATE], r[@UPDATED], r[@FINISHED_AT], r[@ENDING], r[@ERROR] = 'failed', now, now, 'expired', @EXPIRED
  r[@ORDERS], r[@RETURNED_FROM] = nil, nil
  local kind = r[@NAME] and r[@NAME] ~= '' and r[@NAME] or r[@COMMAND] and r[@COMMAND][1] or ''
  r[@FINGERPRINT] = string.sub(redis.sha1hex(@EXPIRED_SHAPE .. '\n' .. kind), 1, @FINGERPRINT_LENGTH)
  if r[@DEPENDENTS] then
    note_end(r[@ID], r[@STATE])
    wake(r[@QUEUE]) -- so that somebody passes it on
  end
  local number = note_event(r[@ID], r[@QUEUE], 'failed', r[@ATTEMPT], false, 'expired')
  remember(entry, number, r[@ATTEMPT], pack_event({now, 'failed', false, 'expired'}))
  if r[@NOTIFY] or settings_of(r[@QUEUE]).notify then
    note_notices(entry, {'failed', 'ended', 'expired'}, number)
  end
end
