-- The dead: those that hold something are kept until they hold nothing.

local function mark_dead(worker)
  call('HSET', key_worker(worker), 'dead', 1)
  call('SADD', key_dead(), worker)
  call('ZREM', key_late(), worker)
  call('ZREM', key_early(), worker)
end

local function forget_idle_dead()
  for _, worker in ipairs(call('SMEMBERS', key_dead())) do
    if call('SCARD', key_held(worker)) == 0 then
      call('DEL', key_worker(worker), key_ordered(worker))
      call('SREM', key_workers(), worker)
      call('SREM', key_dead(), worker)
    end
  end
end

local function held_by(worker)
  local ids = call('SMEMBERS', key_held(worker))
  fetch_all(ids)
  local held = {}
  for _, id in ipairs(ids) do
    local entry = fetch(id)
    if entry and RUNNING[entry.r[STATE]] and entry.r[WORKER] == worker then
      held[#held + 1] = entry
    else
      call('SREM', key_held(worker), id)
      if not entry then note_stray(id) end
    end
  end
  return held
end
