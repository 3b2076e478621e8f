-- Store.drop_queue: delete some of a queue's tasks and, when none is left, the queue.
-- ARGV   3 the name, 4 limit
-- returns how many are left, or the errors UNKNOWN, REFUSED (and how many are running)
-- needs: base, record, lines, tasks, ends, forget

local name = ARGV[3]
if call('SISMEMBER', key_queues(), name) == 0 then return redis.error_reply('UNKNOWN queue') end
local running = running_now(name)
if running > 0 then return redis.error_reply('REFUSED ' .. running) end
whatever_memory_is_left()
call('HSET', key_queue(name), 'paused', 1)
local ids = call('ZRANGE', key_ids(name), 0, ARGV[4] - 1)
fetch_all(ids)
for _, id in ipairs(ids) do
  local entry = fetch(id)
  if entry and entry.r[QUEUE] == name then
    forget(entry)
  else
    call('ZREM', key_ids(name), id) -- its record is gone
  end
end
flush()

-- Whatever still stands somewhere has lost its record.
local function clear_away()
  for _, state in ipairs(LISTS) do
    for _, member in ipairs(call('ZRANGE', key_state(name, state), 0, -1)) do
      note_stray(string.sub(member, 29), name, member)
    end
  end
  for _, lane in ipairs(call('SMEMBERS', key_lanes(name))) do call('UNLINK', key_lane(name, lane)) end
  for _, line in ipairs(call('SMEMBERS', key_lines(name))) do call('UNLINK', key_line(name, line)) end
end

local left = call('ZCARD', key_ids(name))
if left == 0 then
  clear_away()
  call('DEL', key_queue(name), key_lanes(name), key_lines(name), key_heads(name), key_running(name),
       key_runs(name), key_shares(name), key_key_limits(name), key_spared(name))
  call('SREM', key_rated(), name)
  call('SREM', key_queues(), name)
end
return left
