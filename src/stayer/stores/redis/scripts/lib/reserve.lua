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

-- The ids of the best tasks, from all lanes together; `taken` in each lane says how many are its.
local function merged(lanes, limit)
  local part = #lanes == 1 and limit or math.max(1, math.min(limit, math.ceil(64 / #lanes)))
  for _, lane in ipairs(lanes) do fill(lane, part) end
  local ids = {}
  while #ids < limit do
    local best
    for _, lane in ipairs(lanes) do
      if lane.score and (not best or goes_before(lane, best)) then best = lane end
    end
    if not best then break end
    ids[#ids + 1] = string.sub(best.rows[best.at], 13)
    best.taken = best.taken + 1
    best.at = best.at + 2
    if best.at > #best.rows then
      if #best.rows < 2 * part then best.score = nil else fill(best, part) end
    else
      best.score = tonumber(best.rows[best.at + 1])
    end
  end
  return ids
end

local function best_ids(queue, limit, handles)
  local lanes = handled_lanes(queue, handles)
  if #lanes == 0 then return {}, lanes end
  return merged(lanes, limit), lanes
end

local function take_out(queue, lanes)
  for _, lane in ipairs(lanes) do
    if lane.taken > 0 then call('ZREMRANGEBYRANK', lane.key, 0, lane.taken - 1) end
    if not lane.score then call('SREM', key_lanes(queue), lane.lane) end
  end
end

local function room(queue, enough)
  local settings = call('HMGET', key_queue(queue), 'paused', 'limit')
  if settings[1] == '1' then return 0 end
  if not settings[2] then return enough end
  local running = call('ZCARD', key_state(queue, 'reserved')) + call('ZCARD', key_state(queue, 'started'))
  return settings[2] - running
end

local function give(entry, worker, node)
  touch(entry)
  entry.popped = true
  local r = entry.r
  r[STATE], r[ATTEMPT], r[UPDATED], r[WORKER], r[NODE] = 'reserved', r[ATTEMPT] + 1, now, worker, node
  r[PID], r[ENDING], r[STARTED_AT], r[RETURNED_FROM], r[PAUSED], r[USAGE] =
    false, false, false, false, false, false
  local number = happened(entry, 'reserved', r[ATTEMPT], worker, false)
  remember(entry, {number, now, 'reserved', r[ATTEMPT], worker, false, false, false, node})
end

-- The node of a worker that may take tasks; nothing if it is unknown or buried.
local function node_of(worker)
  local known = call('HMGET', key_worker(worker), 'node', 'dead')
  return not known[2] and known[1] or nil
end

local function reserve(worker, node, queues, limit, handles)
  local given = {}
  if not handles[1] then
    with_bytes(handles[4])
    with_bytes(handles[6])
  end
  for _, queue in ipairs(queues) do
    local left = math.min(limit - #given, limit > #given and room(queue, limit) or 0)
    if left > 0 then
      local ids, lanes = best_ids(queue, left, handles)
      take_out(queue, lanes)
      fetch_all(ids)
      for _, id in ipairs(ids) do
        local entry = fetch(id)
        give(entry, worker, node)
        given[#given + 1] = entry
      end
      if #ids > 0 then flush() end
    end
  end
  return given
end

local LEASE_LOST = 'LEASELOST the worker is not registered, or was buried'
