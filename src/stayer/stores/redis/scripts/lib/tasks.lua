-- Tasks while a script works on them: read once, changed in memory, written once with all that
-- follows from the change. What is in which index follows from the record alone, so the indexes
-- can't say anything else than the records do.
--
-- An entry has: r, the record, in which what is not there is nil or false; flags; history; once touched, `was`:
-- what the indexes know, with the numbers W_…; and `others`, if it leads some (see lib/alike.lua).
--
-- needs: events

local RUNNING = {reserved = true, started = true}
local FINISHED = {complete = true, failed = true, cancelled = true}
local QUEUED = {waiting = true, scheduled = true, pending = true}
local HISTORY_IN_RECORD = 1024
-- As in store.py.
local HISTORY_HEAD, HISTORY_TAIL = 100, 900

local W_STATE, W_HELD, W_PRIORITY, W_ETA, W_WORKER, W_ORDERS, W_START_BEFORE, W_FINGERPRINT, W_NEAR =
  1, 2, 3, 4, 5, 6, 7, 8, 9

local entries = {}
local touched = {}
local write_notices -- by lib/notices.lua, for scripts that may have some to write

local function fetch(id)
  local entry = entries[id]
  if entry == nil then
    local value = call('GET', key_task(id))
    entry = value and opened(value) or false
    entries[id] = entry
  end
  return entry
end

-- What is stored of many, false where there is nothing, and their keys.
local function read_all(ids)
  local keys, count = {}, #ids
  for number = 1, count do keys[number] = key_task(ids[number]) end
  if count > 0 and count <= PART then return call('MGET', unpack(keys)), keys end
  local values = {}
  for first = 1, count, PART do
    for _, value in ipairs(call('MGET', unpack(keys, first, math.min(first + PART - 1, count)))) do
      values[#values + 1] = value
    end
  end
  return values, keys
end

-- Read many at once, for the fetches that follow.
local function fetch_all(ids)
  for number, value in ipairs(read_all(ids)) do
    local id = ids[number]
    if entries[id] == nil then entries[id] = value and opened(value) or false end
  end
end

-- To be called before an entry is changed.
local function touch(entry)
  if not entry.touched then
    entry.touched = true
    touched[#touched + 1] = entry
    local r = entry.r
    entry.was = {r[STATE], r[HELD], r[PRIORITY], r[ETA], r[WORKER], r[ORDERS], r[START_BEFORE],
                 r[FINGERPRINT], r[NEAR_NODE]}
  end
end

-- The list that shows the task: its state, but what is held does not stand among what can be taken.
local function shelf(state, held)
  if state == 'pending' and held then return 'held' end
  return state
end

-- What stands for the task in a lane, and, with its time in front, in a list.
local function ticket_of(id, seq) return string.format('%012d', seq) .. id end
local function ticket(entry)
  if not entry.ticket then entry.ticket = ticket_of(entry.r[ID], entry.r[SEQ]) end
  return entry.ticket
end

local created_last, created_text
local function micros(created)
  if created ~= created_last then
    created_last = created
    created_text = string.format('%016d', math.floor(created * 1000000 + 0.5))
  end
  return created_text
end
local function place_of(id, created, seq) return string.format('%s%012d%s', micros(created), seq, id) end
local function place(entry) return micros(entry.r[CREATED]) .. ticket(entry) end

-- What an entry of a history says, apart from number and attempt (`About` in history.py).
local function saying(about)
  local packed = cmsgpack.pack(about)
  return struct.pack('>I4', #packed) .. packed
end

local function moment(number, attempt) return struct.pack('>I8I4', number, attempt) end

-- Older history is in parts: a list of those that hold the first HISTORY_HEAD entries, and one of the others, from
-- which those go that are not among the last HISTORY_TAIL. A part begins with what looks like an entry that says
-- nothing: its number is how many entries came before.

-- How many entries there are with a part, its first attempt and its last; 0 and nothing if there is no such part.
local function extent(part)
  if not part then return 0 end
  local count, position, first, last_attempt = struct.unpack('>I8', part), 17, nil, nil
  while position <= #part do
    local attempt, length = struct.unpack('>I4I4', part, position + 8)
    first, last_attempt, count, position = first or attempt, attempt, count + 1, position + 16 + length
  end
  return count, first, last_attempt
end

-- The numbers of the attempts of which something may be kept.
local function kept_attempts(entry)
  local numbers, last_attempt, id = {}, entry.r[ATTEMPT], entry.r[ID]
  local up_to, from = last_attempt, last_attempt + 1
  local tail = call('LINDEX', key_history_tail(id), 0)
  if tail then
    local _, first = extent(tail)
    up_to = select(3, extent(call('LINDEX', key_history(id), -1)))
    from = math.max(up_to + 1, first - 1)
  end
  for attempt = 1, up_to do numbers[#numbers + 1] = attempt end
  for attempt = from, last_attempt do numbers[#numbers + 1] = attempt end
  return numbers
end

-- Logs and usage go with their attempts. What an attempt has that lies across the border of two parts stays with the
-- head, and goes with the next part after the last that is dropped.
local function drop_middle(id, count)
  local tail = key_history_tail(id)
  local of_head = select(3, extent(call('LINDEX', key_history(id), -1)))
  while true do
    local with_it, first, last_attempt = extent(call('LINDEX', tail, 0))
    if count - with_it < HISTORY_TAIL then return end
    call('LTRIM', tail, 1, -1)
    for attempt = math.max(first - 1, of_head + 1), last_attempt - 1 do
      call('UNLINK', key_log(attempt, id), key_usage(attempt, id))
    end
  end
end

local function move_history(id, moved)
  local head, tail = key_history(id), key_history_tail(id)
  local before = extent(call('LINDEX', tail, -1) or call('LINDEX', head, -1))
  local part = struct.pack('>I8I4I4', before, 0, 0) .. moved
  call('RPUSH', before < HISTORY_HEAD and head or tail, part)
  if before > HISTORY_HEAD + HISTORY_TAIL then drop_middle(id, (extent(part))) end
end

-- What all parts of its history say that are not in its record, the oldest first.
local function older_history(id)
  local parts = call('LRANGE', key_history(id), 0, -1)
  for _, part in ipairs(call('LRANGE', key_history_tail(id), 0, -1)) do parts[#parts + 1] = part end
  return parts
end

local function remember(entry, number, attempt, said)
  entry.history = entry.history .. moment(number, attempt) .. said
  if #entry.history > HISTORY_IN_RECORD then
    move_history(entry.r[ID], entry.history)
    entry.history = ''
  end
end

-- Writing: what is to be done to one key is collected and done at once. This is the hot path of every
-- batch, so keys are put together once.

local removals, additions, departures, arrivals -- ZREM, ZADD, SREM, SADD: key → arguments
local function write(writes, key, one, other)
  local arguments = writes[key]
  if not arguments then
    arguments = {n = 0}
    writes[key] = arguments
  end
  local count = arguments.n + 1
  arguments[count] = one
  if other then
    count = count + 1
    arguments[count] = other
  end
  arguments.n = count
end

-- Loops over what may be many count by themselves: `ipairs` calls a function each time.
local function write_many(arguments, members, score)
  local count, number = arguments.n, #members
  if score then
    for at = 1, number do
      arguments[count + 2 * at - 1], arguments[count + 2 * at] = score, members[at]
    end
    number = 2 * number
  else
    for at = 1, number do arguments[count + at] = members[at] end
  end
  arguments.n = count + number
end

-- What stands for a task in an index, and for those that follow it; with a score, if the index has those.
local function write_ids(writes, key, entry, score)
  write(writes, key, score or entry.r[ID], score and entry.r[ID])
  if entry.others then write_many(writes[key], entry.others.ids, score) end
end

local function write_places(writes, key, entry, score)
  write(writes, key, score or place(entry), score and place(entry))
  if entry.others then write_many(writes[key], entry.others.places, score) end
end

local function write_tickets(writes, key, entry, score)
  write(writes, key, score or ticket(entry), score and ticket(entry))
  if not entry.others then return end
  local tickets = {}
  for number, standing in ipairs(entry.others.places) do tickets[number] = string.sub(standing, 17) end
  write_many(writes[key], tickets, score)
end

-- Functions of one argument, the answers of which are kept.
local function kept(make)
  local answers = {}
  return function(one)
    local answer = answers[one]
    if not answer then
      answer = make(one)
      answers[one] = answer
    end
    return answer
  end
end

local lists_of = kept(function(queue) return kept(function(state) return key_state(queue, state) end) end)
local finished_of = kept(function(queue) return kept(function(state) return key_finished(queue, state) end) end)
local held_key = kept(key_held)

local function move_lists(entry, old, new)
  local list_of = lists_of(entry.r[QUEUE])
  if old then write_places(RUNNING[old] and departures or removals, list_of(old), entry) end
  if RUNNING[new] then
    write_places(arrivals, list_of(new), entry)
  elseif new then
    write_places(additions, list_of(new), entry, '0')
  end
end

local function move_lanes(entry, stood, stands)
  local r, was = entry.r, entry.was
  local queue, comes, key = r[QUEUE], stands and not (stood and (was[W_PRIORITY] or 0) == (r[PRIORITY] or 0))
  if not comes and (stands or not stood) then return end
  local settings = settings_of(queue)
  if settings.lined then
    local line = line_of(r, settings.fair)
    key = key_line(queue, line)
    note_touched(lines_touched, queue, line)
  else
    local lane = lane_of(r)
    key = key_lane(queue, lane)
    if comes then write(arrivals, key_lanes(queue), lane) end
  end
  if comes then
    write_tickets(additions, key, entry, string.format('%.0f', -(r[PRIORITY] or 0)))
  else
    write_tickets(removals, key, entry)
  end
end

-- Out of the lane of one node and into that of another, or of all.
local function move_near(entry, stood, stands)
  local r, was = entry.r, entry.was
  local new, old = r[NEAR_NODE] or nil, was[W_NEAR] or nil
  if stood and old ~= new then
    r[NEAR_NODE] = old
    move_lanes(entry, true, false)
    r[NEAR_NODE] = new
    stood = false
  end
  move_lanes(entry, stood, stands)
  if was[W_STATE] == 'pending' and old then write(removals, key_near(old), r[ID]) end
  if not entry.gone and r[STATE] == 'pending' and new then
    write(additions, key_near(new), exact(r[NEAR_UNTIL]), r[ID])
    write(arrivals, key_near_nodes(), new)
  end
end

-- Those that don't stand in the order in which they came; by their priorities, nothing for none.
local function move_ranked(entry, old, new)
  if new and new ~= 0 then
    write_tickets(additions, key_ranked(entry.r[QUEUE]), entry, string.format('%.0f', -new))
  elseif old and old ~= 0 then
    write_tickets(removals, key_ranked(entry.r[QUEUE]), entry)
  end
end

local function move_due(entry, old, new)
  if new then write(additions, key_due(), exact(new), entry.r[ID])
  elseif old then write(removals, key_due(), entry.r[ID]) end
end

local function move_expiring(entry, old, new)
  if new then write(additions, key_expiring(), exact(new), entry.r[ID])
  elseif old then write(removals, key_expiring(), entry.r[ID]) end
end

local function move_finished(entry, before, state)
  local finished_key = finished_of(entry.r[QUEUE])
  if FINISHED[before] then write_ids(removals, finished_key(before), entry) end
  if FINISHED[state] then write_ids(additions, finished_key(state), entry, exact(entry.r[FINISHED_AT])) end
end

-- What failed, by fault.
local faults_left -- queue → fingerprint → true
local function move_fault(r, old, new)
  if old == new then return end
  if old then
    write(removals, key_failed(r[QUEUE], old), r[ID])
    if not faults_left[r[QUEUE]] then faults_left[r[QUEUE]] = {} end
    faults_left[r[QUEUE]][old] = true
  end
  if new then
    write(additions, key_failed(r[QUEUE], new), exact(r[FINISHED_AT]), r[ID])
    write(arrivals, key_faults(r[QUEUE]), new)
  end
end

local function forget_faults()
  for queue, faults in pairs(faults_left) do
    for fault in pairs(faults) do
      if call('EXISTS', key_failed(queue, fault)) == 0 then call('SREM', key_faults(queue), fault) end
    end
  end
end

local function move_between(where, old, new, entry)
  if (old or nil) == (new or nil) then return end
  if old then write_ids(departures, where(old), entry) end
  if new then write_ids(arrivals, where(new), entry) end
end

-- How many tasks of each part of a flow are in each state.
local changed_flows
local function move_in_flow(entry, before, state)
  local r = entry.r
  local flow = r[FLOW]
  local changed = changed_flows[flow]
  if not changed then
    changed = {}
    changed_flows[flow] = changed
  end
  local part = ' ' .. (r[FLOW_PART] or '')
  if before then changed[before .. part] = (changed[before .. part] or 0) - 1 end
  if state then changed[state .. part] = (changed[state .. part] or 0) + 1 end
  if not before then write(additions, key_members(flow), '0', place(entry)) end
  if not state then write(removals, key_members(flow), place(entry)) end
end

local function write_flows()
  for flow, changed in pairs(changed_flows) do
    for field, number in pairs(changed) do
      if number ~= 0 then call('HINCRBY', key_parts(flow), field, number) end
    end
    if call('EXISTS', key_members(flow)) == 0 then
      local about = call('GET', key_flow(flow))
      if about then call('ZREM', key_flows(), string.format('%016.0f', cjson.decode(about).micros) .. flow) end
      call('DEL', key_flow(flow), key_parts(flow))
    end
  end
end

local function wait_for_nothing(id)
  local awaited = call('HKEYS', key_waits(id))
  for _, upstream in ipairs(awaited) do call('SREM', key_waiters(upstream), id) end
  if #awaited > 0 then call('DEL', key_waits(id)) end
end

local function move(entry)
  local r, was = entry.r, entry.was
  local before, state = was[W_STATE], not entry.gone and r[STATE] or nil
  local old, new = shelf(before, was[W_HELD]), shelf(state, r[HELD])
  if old ~= new then move_lists(entry, old, new) end
  if before == 'pending' or state == 'pending' then
    local moves = (was[W_NEAR] or r[NEAR_NODE]) and move_near or move_lanes
    moves(entry, old == 'pending' and not entry.popped, new == 'pending')
    move_ranked(entry, old == 'pending' and was[W_PRIORITY], new == 'pending' and r[PRIORITY])
  end
  if before == 'scheduled' or state == 'scheduled' then
    move_due(entry, before == 'scheduled' and was[W_ETA], state == 'scheduled' and r[ETA])
  end
  if was[W_START_BEFORE] or r[START_BEFORE] then
    move_expiring(entry, QUEUED[before] and was[W_START_BEFORE], QUEUED[state] and r[START_BEFORE])
  end
  if before ~= state and (FINISHED[before] or FINISHED[state]) then move_finished(entry, before, state) end
  if before ~= state then
    if RUNNING[before] ~= RUNNING[state] then move_places(r, RUNNING[state] and 1 or -1) end
    if r[UNIQUE] then move_unique(r, state) end
  end
  if was[W_FINGERPRINT] or r[FINGERPRINT] then
    move_fault(r, was[W_FINGERPRINT] or nil, state and r[FINGERPRINT] or nil)
  end
  local holder, holds = RUNNING[before] and was[W_WORKER], RUNNING[state] and r[WORKER]
  if holder or holds then
    move_between(held_key, holder, holds, entry)
    if was[W_ORDERS] or r[ORDERS] then
      move_between(key_ordered, was[W_ORDERS] and holder, r[ORDERS] and holds, entry)
    end
  end
  if r[FLOW] and before ~= state then move_in_flow(entry, before, state) end
  if before == 'waiting' and state ~= 'waiting' then wait_for_nothing(r[ID]) end
  if entry.gone then
    write(removals, key_ids(r[QUEUE]), r[ID])
  elseif not before then
    write(additions, key_ids(r[QUEUE]), '0', r[ID])
    write(arrivals, key_queues(), r[QUEUE])
  end
end

local function write_collected()
  for key, arguments in pairs(removals) do in_parts('ZREM', key, arguments) end
  for key, arguments in pairs(additions) do in_parts('ZADD', key, arguments) end
  for key, arguments in pairs(departures) do in_parts('SREM', key, arguments) end
  for key, arguments in pairs(arrivals) do in_parts('SADD', key, arguments) end
end

local function write_indexes()
  changed_flows, faults_left = {}, {}
  removals, additions, departures, arrivals = {}, {}, {}, {}
  for _, entry in ipairs(touched) do
    move(entry)
    entry.touched, entry.popped, entry.others = false, false, nil
  end
  write_collected()
  refresh_touched_lines()
  forget_faults()
  write_flows()
end

local function write_values(pairs_of)
  for first = 1, #pairs_of, PART do
    call('MSET', unpack(pairs_of, first, math.min(first + PART - 1, #pairs_of)))
  end
end

local function write_records()
  local pairs_of, count = {}, 0
  for _, entry in ipairs(touched) do
    if not entry.gone then
      local head, own, kind = closed(entry)
      entry.value = head .. own .. kind .. entry.history
      pairs_of[count + 1], pairs_of[count + 2] = key_task(entry.r[ID]), entry.value
      count = count + 2
    end
    if entry.others then write_values(entry.others.pairs_of) end
  end
  write_values(pairs_of)
end

-- Write all that was changed; entries can be read and changed again afterwards.
local function flush()
  if #touched > 0 then
    write_records()
    write_indexes()
    touched = {}
    if write_notices then write_notices() end
  end
  tell_all()
end

-- Parameters and result of an entry that keeps one of them apart.
local function kept_apart(entry)
  local id, flags = entry.r[ID], entry.flags
  return {bit.band(flags, 3) ~= 0 and call('GET', key_parameters(id)),
          bit.band(flags, 12) ~= 0 and call('GET', key_result(id))}
end

-- For the answer: the values of these entries, or of what has followed one, then (index from 0, parameters, result) of those
-- that keep one of them apart.
local function shown(list)
  local values, apart = {}, {}
  for number = 1, #list do
    local entry = list[number]
    local is_entry = type(entry) == 'table'
    values[number] = is_entry and entry.value or entry
    if is_entry and bit.band(entry.flags, 15) ~= 0 then
      local more = kept_apart(entry)
      apart[#apart + 1] = number - 1
      apart[#apart + 1] = more[1]
      apart[#apart + 1] = more[2]
    end
  end
  return values, apart
end
