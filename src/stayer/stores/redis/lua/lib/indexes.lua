-- What is in which index follows from the record alone, so the indexes can't say anything else than the records do.
--
-- What is to be done to one key is collected and done at once. This is the hot path of every batch, so keys are put
-- together once.
-- include: entries, lines
-- scope

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
  write(writes, key, score or entry.r[@ID], score and entry.r[@ID])
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
local function memoize(make)
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

local lists_of = memoize(function(queue) return memoize(function(state) return @state(queue, state) end) end)
local finished_of = memoize(function(queue) return memoize(function(state) return @finished(queue, state) end) end)
local held_of = memoize(function(worker) return @held(worker) end)
local function orders_key_of(worker) return @ordered(worker) end

local function move_lists(entry, old, new)
  local list_of = lists_of(entry.r[@QUEUE])
  if old then write_places(RUNNING[old] and departures or removals, list_of(old), entry) end
  if RUNNING[new] then
    write_places(arrivals, list_of(new), entry)
  elseif new then
    write_places(additions, list_of(new), entry, '0')
  end
end

local function move_lanes(entry, stood, stands)
  local r, was = entry.r, entry.was
  local queue, comes, key = r[@QUEUE], stands and not (stood and (was.priority or 0) == (r[@PRIORITY] or 0))
  if not comes and (stands or not stood) then return end
  local settings = settings_of(queue)
  if settings.lined then
    local line = line_of(r, settings.fair)
    key = @line(queue, line)
    note_touched(lines_touched, queue, line)
  else
    local lane = lane_of(r)
    key = @lane(queue, lane)
    if comes then write(arrivals, @lanes(queue), lane) end
  end
  if comes then
    write_tickets(additions, key, entry, string.format('%.0f', -(r[@PRIORITY] or 0)))
  else
    write_tickets(removals, key, entry)
  end
end

-- Out of the lane of one node and into that of another, or of all.
local function move_near(entry, stood, stands)
  local r, was = entry.r, entry.was
  local new, old = r[@NEAR_NODE] or nil, was.near or nil
  if stood and old ~= new then
    r[@NEAR_NODE] = old
    move_lanes(entry, true, false)
    r[@NEAR_NODE] = new
    stood = false
  end
  move_lanes(entry, stood, stands)
  if was.state == 'pending' and old then write(removals, @near(old), r[@ID]) end
  if not entry.gone and r[@STATE] == 'pending' and new then
    write(additions, @near(new), exact(r[@NEAR_UNTIL]), r[@ID])
    write(arrivals, @near_nodes(), new)
  end
end

-- Those that don't stand in the order in which they came; by their priorities, nothing for none.
local function move_ranked(entry, old, new)
  if new and new ~= 0 then
    write_tickets(additions, @ranked(entry.r[@QUEUE]), entry, string.format('%.0f', -new))
  elseif old and old ~= 0 then
    write_tickets(removals, @ranked(entry.r[@QUEUE]), entry)
  end
end

local function move_due(entry, old, new)
  if new then write(additions, @due(), exact(new), entry.r[@ID])
  elseif old then write(removals, @due(), entry.r[@ID]) end
end

local function move_expiring(entry, old, new)
  if new then write(additions, @expiring(), exact(new), entry.r[@ID])
  elseif old then write(removals, @expiring(), entry.r[@ID]) end
end

local function move_finished(entry, before, state)
  local finished_key = finished_of(entry.r[@QUEUE])
  if FINISHED[before] then write_ids(removals, finished_key(before), entry) end
  if FINISHED[state] then write_ids(additions, finished_key(state), entry, exact(entry.r[@UPDATED])) end
end

-- What failed, by fault.
local faults_left -- queue → fingerprint → true
local function move_fault(r, old, new)
  if old == new then return end
  if old then
    write(removals, @failed(r[@QUEUE], old), r[@ID])
    if not faults_left[r[@QUEUE]] then faults_left[r[@QUEUE]] = {} end
    faults_left[r[@QUEUE]][old] = true
  end
  if new then
    write(additions, @failed(r[@QUEUE], new), exact(r[@FINISHED_AT]), r[@ID])
    write(arrivals, @faults(r[@QUEUE]), new)
  end
end

local function forget_faults()
  for queue, faults in pairs(faults_left) do
    for fault in pairs(faults) do
      if call('EXISTS', @failed(queue, fault)) == 0 then call('SREM', @faults(queue), fault) end
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
  local flow = r[@FLOW]
  local changed = changed_flows[flow]
  if not changed then
    changed = {}
    changed_flows[flow] = changed
  end
  local part = ' ' .. (r[@FLOW_PART] or '')
  if before then changed[before .. part] = (changed[before .. part] or 0) - 1 end
  if state then changed[state .. part] = (changed[state .. part] or 0) + 1 end
  if not before then write(additions, @members(flow), '0', place(entry)) end
  if not state then write(removals, @members(flow), place(entry)) end
end

local function write_flows()
  for flow, changed in pairs(changed_flows) do
    for field, number in pairs(changed) do
      if number ~= 0 then call('HINCRBY', @parts(flow), field, number) end
    end
    if call('EXISTS', @members(flow)) == 0 then
      local about = call('GET', @flow(flow))
      if about then call('ZREM', @flows(), string.format('%016.0f', cjson.decode(about).micros) .. flow) end
      call('DEL', @flow(flow), @parts(flow))
    end
  end
end

local function wait_for_nothing(id)
  local awaited = call('HKEYS', @waits(id))
  for _, upstream in ipairs(awaited) do call('SREM', @waiters(upstream), id) end
  if #awaited > 0 then call('DEL', @waits(id)) end
end

local function move(entry)
  local r, was = entry.r, entry.was
  local before, state = was.state, not entry.gone and r[@STATE] or nil
  local old, new = shelf(before, was.held), shelf(state, r[@HELD])
  if old ~= new then move_lists(entry, old, new) end
  if before == 'pending' or state == 'pending' then
    local moves = (was.near or r[@NEAR_NODE]) and move_near or move_lanes
    moves(entry, old == 'pending' and not entry.popped, new == 'pending')
    move_ranked(entry, old == 'pending' and was.priority, new == 'pending' and r[@PRIORITY])
  end
  if before == 'scheduled' or state == 'scheduled' then
    move_due(entry, before == 'scheduled' and was.eta, state == 'scheduled' and r[@ETA])
  end
  if was.start_before or r[@START_BEFORE] then
    move_expiring(entry, QUEUED[before] and was.start_before, QUEUED[state] and r[@START_BEFORE])
  end
  if before ~= state and (FINISHED[before] or FINISHED[state]) then move_finished(entry, before, state) end
  if before ~= state then
    if RUNNING[before] ~= RUNNING[state] then move_places(r, RUNNING[state] and 1 or -1, entry.ago) end
    if r[@UNIQUE] then move_unique(r, state) end
  end
  if was.fingerprint or r[@FINGERPRINT] then
    move_fault(r, was.fingerprint or nil, state and r[@FINGERPRINT] or nil)
  end
  local holder, holds = RUNNING[before] and was.worker, RUNNING[state] and r[@WORKER]
  if holder or holds then
    move_between(held_of, holder, holds, entry)
    if was.orders or r[@ORDERS] then
      move_between(orders_key_of, was.orders and holder, r[@ORDERS] and holds, entry)
    end
  end
  if r[@FLOW] and before ~= state then move_in_flow(entry, before, state) end
  if before == 'waiting' and state ~= 'waiting' then wait_for_nothing(r[@ID]) end
  if entry.gone then
    write(removals, @ids(r[@QUEUE]), r[@ID])
  elseif not before then
    write(additions, @ids(r[@QUEUE]), '0', r[@ID])
    write(arrivals, @queues(), r[@QUEUE])
  end
end

-- unpack() takes no more than some thousands at once: call the command for a part at a time.
local function in_parts(command, key, arguments)
  local count = #arguments
  if count <= @ARGUMENTS_AT_ONCE then
    if count > 0 then call(command, key, unpack(arguments)) end
    return
  end
  for first = 1, count, @ARGUMENTS_AT_ONCE do
    call(command, key, unpack(arguments, first, math.min(first + @ARGUMENTS_AT_ONCE - 1, count)))
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
  for _, entry in ipairs(touched) do move(entry) end
  write_collected()
  refresh_touched_lines()
  forget_faults()
  write_flows()
end
