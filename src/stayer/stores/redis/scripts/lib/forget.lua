-- Deleting a task with all that belongs to it. The id of one that had ended stays refused.

-- Whether a task of this store, or shard, that has not ended was to run after this one.
local function is_awaited(upstream)
  local ids = call('SMEMBERS', key_dependents(upstream))
  for first = 1, #ids, 100 do
    local some = {unpack(ids, first, math.min(first + 99, #ids))}
    fetch_all(some)
    for _, id in ipairs(some) do
      local other = fetch(id)
      if other and not FINISHED[other.r[STATE]] then return true end
    end
  end
  return false
end

-- Where some of another shard may have to, it has to be asked: until it has been, the task stays.
local function is_needed(entry)
  local id = entry.r[ID]
  if not entry.r[DEPENDENTS] then return false end
  if is_awaited(id) then return true end
  local heard, free, til = unpack(IS_SHARD and call('HMGET', key_listeners(id), 'heard', 'free', 'until') or {})
  if not heard or (free == heard and tonumber(til) > now) then return false end
  call('SADD', key_asked(), id)
  return true
end

local function forget(entry)
  local r = entry.r
  local id = r[ID]
  touch(entry)
  if r[FINISHED_AT] then
    call('SET', key_purged(id),
         cmsgpack.pack({r[QUEUE], r[STATE], r[CREATED], r[FINISHED_AT], now}), 'EX', REMEMBERED)
  end
  if r[DEPENDENTS] and call('SCARD', key_waiters(id)) > 0 then
    call('HSET', key_outbox(), id, r[FINISHED_AT] and r[STATE] or 'cancelled')
  end
  if r[DEPENDENTS] then note_afar(id) end
  if r[UPSTREAMS] then
    for _, each in ipairs(call('LRANGE', key_upstreams(id), 0, -1)) do
      call('SREM', key_dependents(string.sub(each, 2)), id)
    end
  end
  local keys = {key_task(id), key_parameters(id), key_result(id), key_history(id), key_history_tail(id),
                key_checkpoint(id), key_upstreams(id), key_dependents(id)}
  for _, attempt in ipairs(kept_attempts(entry)) do
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
