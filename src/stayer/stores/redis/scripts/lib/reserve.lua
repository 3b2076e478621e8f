-- Who gets what: the best tasks of the lanes that a worker can run.

-- handles: {everything, plain, names, name patterns, programs, program patterns}; the patterns are
-- Lua's (see handles.py)
local function handled(lane, handles)
  if handles[1] then return true end
  if lane == '' then return handles[2] end
  local first = string.sub(lane, 1, 5) == 'name ' and 3 or 5
  local word = string.sub(lane, first == 3 and 6 or 9)
  for _, name in ipairs(handles[first]) do
    if name == word then return true end
  end
  for _, pattern in ipairs(handles[first + 1]) do
    if string.find(word, pattern) then return true end
  end
  return false
end

-- The mark \1 stands for the bytes that continue a character.
local function with_bytes(patterns)
  for number, pattern in ipairs(patterns) do
    patterns[number] = string.gsub(pattern, '\1', '\128-\191')
  end
end

local function handled_lanes(queue, handles)
  local found = {}
  for _, lane in ipairs(call('SMEMBERS', key_lanes(queue))) do
    if handled(lane, handles) then
      found[#found + 1] = {lane = lane, key = key_lane(queue, lane), taken = 0, at = 1}
    end
  end
  return found
end

local function fill(lane, number)
  lane.rows = call('ZRANGE', lane.key, lane.taken, lane.taken + number - 1, 'WITHSCORES')
  lane.at = 1
  lane.score = tonumber(lane.rows[2])
end

local function goes_before(one, other)
  if one.score ~= other.score then return one.score < other.score end
  return one.rows[one.at] < other.rows[other.at]
end

-- The best of all lanes together; `taken` in each lane says how many are its, `score` is nil where it
-- has no more.
local function merged(lanes, limit)
  local part = math.max(1, math.min(limit, math.ceil(64 / #lanes)))
  for _, lane in ipairs(lanes) do fill(lane, part) end
  local tickets = {}
  while #tickets < limit do
    local best
    for _, lane in ipairs(lanes) do
      if lane.score and (not best or goes_before(lane, best)) then best = lane end
    end
    if not best then break end
    tickets[#tickets + 1] = best.rows[best.at]
    best.taken = best.taken + 1
    best.at = best.at + 2
    if best.at <= #best.rows then
      best.score = tonumber(best.rows[best.at + 1])
    elseif #best.rows < 2 * part then
      best.score = nil
    else
      fill(best, part)
    end
  end
  return tickets
end

-- The tickets of the best tasks of a queue, and the lanes that they are in.
local function best_of(queue, limit, handles)
  local lanes = handled_lanes(queue, handles)
  if #lanes == 0 then return {}, lanes end
  if #lanes > 1 then return merged(lanes, limit), lanes end
  local tickets = call('ZRANGE', lanes[1].key, 0, limit - 1)
  lanes[1].taken = #tickets
  lanes[1].score = #tickets == limit or nil
  return tickets, lanes
end

local function ids_of(tickets)
  local ids = {}
  for number, each in ipairs(tickets) do ids[number] = string.sub(each, 13) end
  return ids
end

local function take_out(queue, lanes)
  for _, lane in ipairs(lanes) do
    if lane.taken > 0 then call('ZREMRANGEBYRANK', lane.key, 0, lane.taken - 1) end
    if not lane.score then call('SREM', key_lanes(queue), lane.lane) end
  end
end

-- The best tasks of a queue, out of their lanes: tickets and ids. What is too old to be started ends
-- on the way; if that is very much, the rest is left for another look.
local function taken_from(queue, limit, handles)
  local tickets, ids, ended, late = {}, {}, 0, 0
  repeat
    local best, lanes = best_of(queue, limit - #ids, handles)
    local found = ids_of(best)
    take_out(queue, lanes)
    fetch_all(found)
    late = 0
    for number, id in ipairs(found) do
      local entry = fetch(id)
      if is_late(entry.r) then
        entry.popped, entry.ticket = true, best[number]
        expire(entry)
        late = late + 1
      else
        tickets[#tickets + 1], ids[#ids + 1] = best[number], id
      end
    end
    ended = ended + late
  until late == 0 or #ids == limit or ended >= PART
  if ended >= PART then wake(queue) end
  return tickets, ids, ended
end

local function room(queue, enough)
  local settings = call('HMGET', key_queue(queue), 'paused', 'limit')
  if settings[1] == '1' then return 0 end
  if not settings[2] then return enough end
  local running = call('ZCARD', key_state(queue, 'reserved')) + call('ZCARD', key_state(queue, 'started'))
  return settings[2] - running
end

local function give(entry, stood, worker, node, number, said)
  touch(entry)
  entry.popped, entry.ticket = true, stood
  local r = entry.r
  r[STATE], r[ATTEMPT], r[UPDATED], r[WORKER], r[NODE] = 'reserved', r[ATTEMPT] + 1, now, worker, node
  r[PID], r[ENDING], r[STARTED_AT], r[RETURNED_FROM], r[PAUSED], r[USAGE] = nil, nil, nil, nil, nil, nil
  remember(entry, number, r[ATTEMPT], said)
end

-- The node of a worker; nothing if it is unknown or buried. One that drains may take no tasks.
local drains
local function node_of(worker)
  local known = call('HMGET', key_worker(worker), 'node', 'dead', 'draining')
  drains = known[3] == '1'
  return not known[2] and known[1] or nil
end

local function reserve(worker, node, queues, limit, handles)
  local given = {}
  if drains then return given end
  local said = saying({now, 'reserved', worker, false, false, false, node})
  if not handles[1] then
    with_bytes(handles[4])
    with_bytes(handles[6])
  end
  for _, queue in ipairs(queues) do
    local left = math.min(limit - #given, limit > #given and room(queue, limit) or 0)
    if left > 0 then
      local tickets, ids, ended = taken_from(queue, left, handles)
      local first, attempts = last_number(), {}
      for number, id in ipairs(ids) do
        local entry = fetch(id)
        give(entry, tickets[number], worker, node, first + number, said)
        attempts[number] = entry.r[ATTEMPT]
        given[#given + 1] = entry
      end
      if #ids > 0 then note_events(ids, queue, 'reserved', attempts, worker) end
      if #ids + ended > 0 then flush() end
    end
  end
  return given
end

local LEASE_LOST = 'LEASELOST the worker is not registered, or was buried'
