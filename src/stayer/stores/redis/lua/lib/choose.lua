-- Who comes first: the best tasks of the lanes that a worker can run.
-- include: entries, lines, patterns
-- scope

-- In a queue with lines a lane has a share, too (see lib/lines.lua).

-- The node that has a lane for itself, if one has, and the lane apart from that.
local function parts_of_near(lane)
  local _, head, length = string.find(lane, '^near (%d+) ')
  if not head then return nil, lane end
  local node_end = head + tonumber(length)
  return string.sub(lane, head + 1, node_end), string.sub(lane, node_end + 2)
end

local my_node -- nil: lanes of all nodes
local function handles_here(lane, handles)
  local near, rest = parts_of_near(lane)
  return (not near or not my_node or near == my_node) and handles_lane(rest, handles)
end

-- What the lane is made of in which the firsts of lines stand.
local function parts_of_lane(name)
  local _, head, first = string.find(name, '^(%d+) ')
  local lane_end = head + tonumber(first)
  return string.sub(name, head + 1, lane_end), string.sub(name, lane_end + 1)
end

local function lanes_for(queue, handles)
  local found, lined = {}, settings_of(queue).lined
  for _, name in ipairs(call('SMEMBERS', @lanes(queue))) do
    local lane, share = name, nil
    if lined then lane, share = parts_of_lane(name) end
    if handles_here(lane, handles) then
      found[#found + 1] = {lane = name, share = share, key = @lane(queue, name), taken = 0, at = 1}
    end
  end
  return found
end

local function ids_of(tickets)
  local ids = {}
  for number = 1, #tickets do ids[number] = string.sub(tickets[number], 13) end
  return ids
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
local function merge(lanes, limit)
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

-- Whether the record is of the task that stands there, and says so too.
local function matches_ticket(entry, standing)
  return entry and entry.r[@STATE] == 'pending' and entry.r[@SEQ] - string.sub(standing, 1, 12) == 0
end

-- What stands here without its record; what else there is of it is seen to by missing_records.lua. Who only looks writes nothing.
local function pass_over(queue, standing)
  if my_node then note_missing_record(string.sub(standing, 13), queue, standing) end
end

-- The same where there are too many lanes to look into each, say one for every script: along the order of all
-- tasks; each that is taken has its lane by itself. Nothing if it takes more than a look at so many that stand first.
local function along_the_order(queue, limit, handles, looked_at)
  local tickets, lanes, known = {}, {}, {}
  local function pick(standing, ranked)
    local values = read_all(ids_of(standing))
    for number = 1, #standing do
      if #tickets == limit then return true end
      local entry = values[number] and open_record(values[number])
      if not matches_ticket(entry, standing[number]) then
        pass_over(queue, standing[number])
      elseif ranked or (entry.r[@PRIORITY] or 0) == 0 then
        local lane = lane_of(entry.r)
        if known[lane] == nil then known[lane] = handles_here(lane, handles) end
        if known[lane] then
          tickets[#tickets + 1] = standing[number]
          lanes[#lanes + 1] = {lane = lane, key = @lane(queue, lane), ticket = standing[number]}
        end
      end
    end
    return #tickets == limit
  end
  local function pick_ranked(low, high)
    local standing = call('ZRANGEBYSCORE', @ranked(queue), low, high, 'LIMIT', 0, looked_at)
    return pick(standing, true), #standing == looked_at
  end
  local enough, cut = pick_ranked('-inf', '(0')
  if not enough and not cut then
    local places = call('ZRANGE', @state(queue, 'pending'), 0, looked_at - 1)
    for number = 1, #places do places[number] = string.sub(places[number], 17) end
    enough, cut = pick(places, false), #places == looked_at
  end
  if not enough and not cut then enough, cut = pick_ranked('(0', '+inf') end
  if enough or not cut then return tickets, lanes end
end

-- The tickets of the best tasks of a queue, and the lanes that they are in.
local function best_of(queue, limit, handles)
  local number = call('SCARD', @lanes(queue))
  -- With more lanes than tasks some have nothing: going through them all makes away with those.
  if number > @MANY_LANES and number <= call('ZCARD', @state(queue, 'pending')) then
    local tickets, lanes = along_the_order(queue, limit, handles, limit + @LOOKED_AT_FIRST)
    if not tickets then tickets, lanes = along_the_order(queue, limit, handles, limit + @LOOKED_AT) end
    if tickets then return tickets, lanes end
  end
  local lanes = lanes_for(queue, handles)
  if #lanes == 0 then return {}, lanes end
  if #lanes > 1 then return merge(lanes, limit), lanes end
  local tickets = call('ZRANGE', lanes[1].key, 0, limit - 1)
  lanes[1].taken = #tickets
  lanes[1].score = #tickets == limit or nil
  return tickets, lanes
end
