-- Deleting a task with all that belongs to it. The id of one that had ended stays refused.
-- include: tasks, old_history, ends, dependents

-- Where some of another shard may have to, it has to be asked: until it has been, the task stays.
local function is_needed(entry)
  local id = entry.r[@ID]
  if not entry.r[@DEPENDENTS] then return false end
  if is_awaited(id) then return true end
  local listened_to, free, til = unpack(IS_SHARD and call('HMGET', @listeners(id), 'heard', 'free', 'until') or {})
  if not listened_to or (free == listened_to and tonumber(til) > now) then return false end
  call('SADD', @asked(), id)
  return true
end

local function forget(entry)
  local r = entry.r
  local id = r[@ID]
  touch(entry)
  if r[@FINISHED_AT] then
    call('SET', @purged(id),
         cmsgpack.pack({r[@QUEUE], r[@STATE], r[@CREATED], r[@FINISHED_AT], now}), 'EX', @REMEMBERED)
  end
  if r[@DEPENDENTS] and call('SCARD', @waiters(id)) > 0 then
    call('HSET', @outbox(), id, r[@FINISHED_AT] and r[@STATE] or 'cancelled')
  end
  if r[@DEPENDENTS] then note_afar(id) end
  if r[@UPSTREAMS] then
    for _, each in ipairs(call('LRANGE', @upstreams(id), 0, -1)) do
      local upstream = string.sub(each, 2)
      call('SREM', @dependents(upstream), id)
    end
  end
  local keys = {@task(id), @parameters(id), @result(id), @history(id), @history_tail(id),
                @checkpoint(id), @upstreams(id), @dependents(id)}
  for _, attempt in ipairs(kept_attempts(entry)) do
    keys[#keys + 1] = @log(attempt, id)
    keys[#keys + 1] = @usage(attempt, id)
    if #keys >= @ARGUMENTS_AT_ONCE then
      call('UNLINK', unpack(keys))
      keys = {}
    end
  end
  if #keys > 0 then call('UNLINK', unpack(keys)) end
  note_event(id, r[@QUEUE], 'deleted', r[@ATTEMPT], false, false)
  if RUNNING[r[@STATE]] then wake(r[@QUEUE]) end
  entry.gone = true
  entries[id] = false
end
