-- Tasks while a script works on them: read once, changed in memory, written once with all that
-- follows from the change. What is in which index follows from the record alone, so the indexes
-- can't say anything else than the records do.
--
-- An entry has: r, the record; flags; history; and, once touched, `was`: what the indexes know.

local RUNNING = {reserved = true, started = true}
local FINISHED = {complete = true, failed = true, cancelled = true}
local QUEUED = {waiting = true, scheduled = true, pending = true}
local EVENTS_KEPT = 100000
local EVENTS_A_BATCH = 500
local HISTORY_IN_RECORD = 1024

local entries = {}
local touched = {}
local events = {}
local woken = {}
local ordered = {}
local last

local function next_number()
  if not last then last = tonumber(call('GET', key_last()) or 0) end
  last = last + 1
  return last
end

local function opened(value)
  local after, record = cmsgpack.unpack_one(value, 5)
  return {r = record, flags = string.byte(value), value = value,
          history = after < 0 and '' or string.sub(value, after + 1)}
end

local function fetch(id)
  local entry = entries[id]
  if entry == nil then
    local value = call('GET', key_task(id))
    entry = value and opened(value) or false
    entries[id] = entry
  end
  return entry
end

-- Read many at once, for the fetches that follow.
local function fetch_all(ids)
  for first = 1, #ids, PART do
    local keys = {}
    local final = math.min(first + PART - 1, #ids)
    for number = first, final do keys[#keys + 1] = key_task(ids[number]) end
    for number, value in ipairs(call('MGET', unpack(keys))) do
      local id = ids[first + number - 1]
      if entries[id] == nil then entries[id] = value and opened(value) or false end
    end
  end
end

-- To be called before an entry is changed.
local function touch(entry)
  if not entry.touched then
    entry.touched = true
    touched[#touched + 1] = entry
    local r = entry.r
    entry.was = {[STATE] = r[STATE], [HELD] = r[HELD], [PRIORITY] = r[PRIORITY], [ETA] = r[ETA],
                 [WORKER] = r[WORKER], [ORDERS] = r[ORDERS], [FINISHED_AT] = r[FINISHED_AT]}
  end
end

local function lane_of(r)
  if r[COMMAND] then return 'command ' .. r[COMMAND][1] end
  if r[NAME] then return 'name ' .. r[NAME] end
  return ''
end

-- The list that shows the task: its state, but what is held does not stand among what can be taken.
local function shelf(r)
  if r[STATE] == 'pending' and r[HELD] then return 'held' end
  return r[STATE]
end

local function takeable(r) return r[STATE] == 'pending' and not r[HELD] end

local function ticket(r) return string.format('%012d', r[SEQ]) .. r[ID] end

local function place(r)
  return string.format('%016d%012d', math.floor(r[CREATED] * 1000000 + 0.5), r[SEQ]) .. r[ID]
end

local function wake(queue) woken[queue] = true end

-- Something happened to a task: for those who watch. The answer is the event's number.
local function happened(entry, event, attempt, worker, note)
  local r = entry.r
  local number = next_number()
  events[#events + 1] = {number, now, r[ID], r[QUEUE], event, attempt, worker, note}
  return number
end

-- The same for the task's own history: an array as `Moment` in record.py has it.
local function remember(entry, moment)
  local packed = cmsgpack.pack(moment)
  local history = entry.history .. struct.pack('>I4', #packed) .. packed
  if #history > HISTORY_IN_RECORD then
    call('RPUSH', key_history(entry.r[ID]), history)
    history = ''
  end
  entry.history = history
end

-- Writing: commands for the same key are collected and done at once.

local writes
local function write(command, key, one, other)
  local of_command = writes[command]
  local arguments = of_command[key]
  if not arguments then
    arguments = {}
    of_command[key] = arguments
  end
  arguments[#arguments + 1] = one
  if other then arguments[#arguments + 1] = other end
end

local function move_lists(r, was, entry)
  local old, new = was[STATE] and shelf(was), r[STATE] and shelf(r)
  if old ~= new then
    local member = place(entry.r)
    if old then write('ZREM', key_state(entry.r[QUEUE], old), member) end
    if new then write('ZADD', key_state(entry.r[QUEUE], new), '0', member) end
  end
end

local function move_lanes(r, was, entry)
  local stood = was[STATE] and takeable(was) and not entry.popped
  local stands = r[STATE] and takeable(r)
  if stood and not stands then
    write('ZREM', key_lane(entry.r[QUEUE], lane_of(entry.r)), ticket(entry.r))
  elseif stands and not (stood and was[PRIORITY] == r[PRIORITY]) then
    local lane = lane_of(r)
    write('SADD', key_lanes(r[QUEUE]), lane)
    write('ZADD', key_lane(r[QUEUE], lane), string.format('%.0f', -r[PRIORITY]), ticket(r))
  end
end

local function move_times(r, was, id)
  local old, new = was[STATE] == 'scheduled' and was[ETA], r[STATE] == 'scheduled' and r[ETA]
  if old ~= new then
    if new then write('ZADD', key_due(), exact(new), id)
    else write('ZREM', key_due(), id) end
  end
  old, new = FINISHED[was[STATE]] and was[FINISHED_AT], FINISHED[r[STATE]] and r[FINISHED_AT]
  if old ~= new or (old and was[STATE] ~= r[STATE]) then
    if old then write('ZREM', key_finished(was[STATE]), id) end
    if new then write('ZADD', key_finished(r[STATE]), exact(new), id) end
  end
end

local function move_holders(r, was, id)
  local old, new = RUNNING[was[STATE]] and was[WORKER], RUNNING[r[STATE]] and r[WORKER]
  if old ~= new then
    if old then write('SREM', key_held(old), id) end
    if new then write('SADD', key_held(new), id) end
  end
  old, new = old and was[ORDERS] and old, new and r[ORDERS] and new
  if old ~= new then
    if old then write('SREM', key_ordered(old), id) end
    if new then write('SADD', key_ordered(new), id) end
  end
end

local GONE = {}

local function write_indexes()
  writes = {ZREM = {}, ZADD = {}, SREM = {}, SADD = {}}
  for _, entry in ipairs(touched) do
    local r, was, id = entry.gone and GONE or entry.r, entry.was, entry.r[ID]
    move_lists(r, was, entry)
    move_lanes(r, was, entry)
    move_times(r, was, id)
    move_holders(r, was, id)
    if not was[STATE] and not entry.gone then
      write('ZADD', key_ids(r[QUEUE]), '0', id)
      write('SADD', key_queues(), r[QUEUE])
    elseif entry.gone then
      write('ZREM', key_ids(entry.r[QUEUE]), id)
    end
    entry.touched, entry.popped = nil, nil
  end
  for command, keys in pairs(writes) do
    for key, arguments in pairs(keys) do in_parts(command, key, arguments) end
  end
end

local function write_records()
  local pairs_of = {}
  for _, entry in ipairs(touched) do
    if not entry.gone then
      local record = cmsgpack.pack(entry.r)
      entry.value = struct.pack('>BI4', entry.flags, #record) .. record .. entry.history
      pairs_of[#pairs_of + 1] = key_task(entry.r[ID])
      pairs_of[#pairs_of + 1] = entry.value
    end
  end
  for first = 1, #pairs_of, PART do
    call('MSET', unpack(pairs_of, first, math.min(first + PART - 1, #pairs_of)))
  end
end

local EVENT_NAMES = {'number', 'at', 'id', 'queue', 'event', 'attempt', 'worker', 'note'}

local function tell_listeners()
  if call('PUBSUB', 'NUMSUB', key_events())[2] == 0 then return end
  local told = {}
  for number, event in ipairs(events) do
    local named = {}
    for place_of, name in ipairs(EVENT_NAMES) do
      named[name] = event[place_of] or cjson.null
    end
    told[number] = named
  end
  call('PUBLISH', key_events(), cjson.encode(told))
end

local function write_events()
  for first = 1, #events, EVENTS_A_BATCH do
    local batch = events
    if #events > EVENTS_A_BATCH then
      batch = {unpack(events, first, math.min(first + EVENTS_A_BATCH - 1, #events))}
    end
    local number = batch[#batch][1]
    call('XADD', key_events(), 'MINID', '~', string.format('%.0f', math.max(0, number - EVENTS_KEPT)),
         string.format('%.0f-0', number), 'e', cmsgpack.pack(batch))
  end
  if #events > 0 then
    call('SET', key_last(), string.format('%.0f', last))
    tell_listeners()
  end
end

local function write_wakes()
  for queue in pairs(woken) do
    local number = last or call('GET', key_last()) or 0
    call('HSET', key_queue(queue), 'wakes', number)
    call('PUBLISH', key_wake(queue), number)
  end
  for worker in pairs(ordered) do
    if call('EXISTS', key_worker(worker)) == 1 then
      call('PUBLISH', key_orders(worker), call('HINCRBY', key_worker(worker), 'wakes', 1))
    end
  end
end

-- Write all that was changed; entries can be read and changed again afterwards.
local function flush()
  if #touched > 0 then
    write_records()
    write_indexes()
    touched = {}
  end
  write_events()
  write_wakes()
  events, woken, ordered = {}, {}, {}
end

-- For the answer: the values of these entries, then (index from 0, parameters, result) of those
-- that keep one of them apart.
local function shown(list)
  local values, apart = {}, {}
  for number, entry in ipairs(list) do
    values[number] = entry and entry.value or false
    local flags = entry and bit.band(entry.flags, 15) or 0
    if flags ~= 0 then
      apart[#apart + 1] = number - 1
      apart[#apart + 1] = bit.band(flags, 3) ~= 0 and call('GET', key_parameters(entry.r[ID]))
      apart[#apart + 1] = bit.band(flags, 12) ~= 0 and call('GET', key_result(entry.r[ID]))
    end
  end
  return values, apart
end
