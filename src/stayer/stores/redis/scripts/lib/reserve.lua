-- Who gets what: the best tasks of the lanes that a worker can run.
-- needs: patterns

-- So many lanes are looked into, each by itself; with more, so many tasks beyond those wanted are looked at.
local MANY_LANES, LOOKED_AT_FIRST, LOOKED_AT = 32, 50, 1000

-- In a queue with lines a lane has a share, too (see lib/lines.lua).

-- The node that has a lane for itself, if one has, and the lane apart from that.
local function parts_of_near(lane)
  local _, head, length = string.find(lane, '^near (%d+) ')
  if not head then return nil, lane end
  local node_end = head + tonumber(length)
  return string.sub(lane, head + 1, node_end), string.sub(lane, node_end + 2)
end

local my_node -- nil: lanes of all nodes
local function handled_here(lane, handles)
  local near, rest = parts_of_near(lane)
  return (not near or not my_node or near == my_node) and handled(rest, handles)
end

local function handled_lanes(queue, handles)
  local found, lined = {}, settings_of(queue).lined
  for _, name in ipairs(call('SMEMBERS', key_lanes(queue))) do
    local lane, share = name, nil
    if lined then lane, share = parts_of_lane(name) end
    if handled_here(lane, handles) then
      found[#found + 1] = {lane = name, share = share, key = key_lane(queue, name), taken = 0, at = 1}
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

-- Whether the record is of the task that stands there, and says so too.
local function is_as_said(entry, standing)
  return entry and entry.r[STATE] == 'pending' and entry.r[SEQ] - string.sub(standing, 1, 12) == 0
end

-- What stands here without its record; what else there is of it is seen to by strays.lua. Who only looks writes nothing.
local function pass_over(queue, standing)
  if my_node then note_stray(string.sub(standing, 13), queue, standing) end
end

-- The same where there are too many lanes to look into each, say one for every script: along the order of all
-- tasks; each that is taken has its lane by itself. Nothing if it takes more than a look at so many that stand first.
local function along_the_order(queue, limit, handles, looked_at)
  local tickets, lanes, known = {}, {}, {}
  local function pick(standing, ranked)
    local values = read_all(ids_of(standing))
    for number = 1, #standing do
      if #tickets == limit then return true end
      local entry = values[number] and opened(values[number])
      if not is_as_said(entry, standing[number]) then
        pass_over(queue, standing[number])
      elseif ranked or (entry.r[PRIORITY] or 0) == 0 then
        local lane = lane_of(entry.r)
        if known[lane] == nil then known[lane] = handled_here(lane, handles) end
        if known[lane] then
          tickets[#tickets + 1] = standing[number]
          lanes[#lanes + 1] = {lane = lane, key = key_lane(queue, lane), ticket = standing[number]}
        end
      end
    end
    return #tickets == limit
  end
  local function pick_ranked(low, high)
    local standing = call('ZRANGEBYSCORE', key_ranked(queue), low, high, 'LIMIT', 0, looked_at)
    return pick(standing, true), #standing == looked_at
  end
  local enough, cut = pick_ranked('-inf', '(0')
  if not enough and not cut then
    local places = call('ZRANGE', key_state(queue, 'pending'), 0, looked_at - 1)
    for number = 1, #places do places[number] = string.sub(places[number], 17) end
    enough, cut = pick(places, false), #places == looked_at
  end
  if not enough and not cut then enough, cut = pick_ranked('(0', '+inf') end
  if enough or not cut then return tickets, lanes end
end

-- The tickets of the best tasks of a queue, and the lanes that they are in.
local function best_of(queue, limit, handles)
  local number = call('SCARD', key_lanes(queue))
  -- With more lanes than tasks some have nothing: going through them all makes away with those.
  if number > MANY_LANES and number <= call('ZCARD', key_state(queue, 'pending')) then
    local tickets, lanes = along_the_order(queue, limit, handles, limit + LOOKED_AT_FIRST)
    if not tickets then tickets, lanes = along_the_order(queue, limit, handles, limit + LOOKED_AT) end
    if tickets then return tickets, lanes end
  end
  local lanes = handled_lanes(queue, handles)
  if #lanes == 0 then return {}, lanes end
  if #lanes > 1 then return merged(lanes, limit), lanes end
  local tickets = call('ZRANGE', lanes[1].key, 0, limit - 1)
  lanes[1].taken = #tickets
  lanes[1].score = #tickets == limit or nil
  return tickets, lanes
end

local function take_out(queue, lanes)
  for _, lane in ipairs(lanes) do
    if lane.ticket then
      call('ZREM', lane.key, lane.ticket)
      lane.score = call('EXISTS', lane.key) == 1
    elseif lane.taken > 0 then
      call('ZREMRANGEBYRANK', lane.key, 0, lane.taken - 1)
    end
    if not lane.score then call('SREM', key_lanes(queue), lane.lane) end
  end
end

local function room(queue, enough)
  local settings = settings_of(queue)
  if settings.paused then return 0 end
  if settings.rate then enough = math.min(enough, math.floor(rate_level(settings) + ALMOST)) end
  if not settings.limit then return enough end
  return math.min(enough, settings.limit - running_now(queue))
end

local function take_tokens(queue, number)
  local settings = settings_of(queue)
  settings.tokens, settings.tokens_at = rate_level(settings) - number, now
  call('HSET', key_queue(queue), 'tokens', exact(settings.tokens), 'tokens_at', NOW)
end

local function note_given(id, r) return note_event(id, r[QUEUE], 'reserved', r[ATTEMPT], r[WORKER], false) end

local function give(entry, stood, worker, node, said)
  touch(entry)
  entry.popped, entry.ticket = not settings_of(entry.r[QUEUE]).lined, stood
  local r = entry.r
  r[STATE], r[ATTEMPT], r[UPDATED], r[WORKER], r[NODE] = 'reserved', r[ATTEMPT] + 1, now, worker, node
  r[PID], r[ENDING], r[STARTED_AT], r[RETURNED_FROM], r[PAUSED], r[USAGE] = nil, nil, nil, nil, nil, nil
  remember(entry, note_given(r[ID], r), r[ATTEMPT], said)
end

-- The node of a worker; nothing if it is unknown or buried, or, in a shard of a cluster, was introduced and has
-- not proven to be alive. One that drains may take no tasks.
local drains
local function node_of(worker)
  local known = call('HMGET', key_worker(worker), 'node', 'dead', 'draining', 'unproven')
  drains = known[3] == '1'
  return not known[2] and not known[4] and known[1] or nil
end

-- Who stands first in a lane of firsts.
local function look_at(lane)
  local first = call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')
  lane.ticket, lane.score = first[1], tonumber(first[2])
  lanes_changed[lane.lane] = nil
end

-- Whether one lane's first goes before another's: by priority, then by whose turn it is, then by age.
local function is_before(one, other, turns)
  if one.score ~= other.score then return one.score < other.score end
  if turns then
    local mine = math.floor((turns.used[one.share] or 0) * 1000 + 0.5)
    local its = math.floor((turns.used[other.share] or 0) * 1000 + 0.5)
    if mine ~= its then return mine < its end
  end
  return one.ticket < other.ticket
end

-- The first of a line is a stray: the next one stands for it.
local function pass_over_in_line(queue, standing)
  local heads = call('HGETALL', key_heads(queue))
  for number = 1, #heads, 2 do
    if heads[number + 1] == standing then
      call('ZREM', key_line(queue, heads[number]), standing)
      note_touched(lines_touched, queue, heads[number])
    end
  end
  pass_over(queue, standing)
  refresh_touched_lines()
end

-- One by one, for each that is taken may fill its key or give the turn to another.
local function reserve_from_lines(queue, left, handles, worker, node, said, given)
  local lanes = handled_lanes(queue, handles)
  local turns = settings_of(queue).fair and turns_of(queue)
  for _, lane in ipairs(lanes) do look_at(lane) end
  while left > 0 do
    local best
    for _, lane in ipairs(lanes) do
      if lanes_changed[lane.lane] then look_at(lane) end
      if lane.ticket and (not best or is_before(lane, best, turns)) then best = lane end
    end
    if not best then break end
    local entry = fetch(string.sub(best.ticket, 13))
    if not is_as_said(entry, best.ticket) then
      call('ZREM', best.key, best.ticket)
      lanes_changed[best.lane] = true
      pass_over_in_line(queue, best.ticket)
    elseif is_late(entry.r) then
      expire(entry)
    else
      give(entry, best.ticket, worker, node, said)
      if turns then turns.used[best.share] = (turns.used[best.share] or 0) + turns.usual end
      given[#given + 1] = entry
      left = left - 1
    end
    flush()
  end
end

-- Gives these, which are out of their lanes. What is too old to be started ends on the way, and what has no record is
-- passed over: how many these are.
local function give_all(queue, tickets, worker, node, said, given)
  local ids, leaders, ended = ids_of(tickets), {}, 0
  local values, keys = read_all(ids)
  for number = 1, #ids do
    local id, value = ids[number], values[number]
    local leader, kind, own_end, record_end = leader_of(leaders, id, value)
    local created, seq
    if leader then created, seq = birth_of(value) end
    if leader and seq - string.sub(tickets[number], 1, 12) == 0 then
      given[#given + 1] = follow(leader, id, micros(created) .. tickets[number], keys[number], value, own_end,
                                 record_end, nil, note_given(id, leader.r))
    else
      local entry = entry_of(id, value)
      if not is_as_said(entry, tickets[number]) then
        pass_over(queue, tickets[number])
        ended = ended + 1
      elseif is_late(entry.r) then
        entry.popped, entry.ticket = true, tickets[number]
        expire(entry)
        ended = ended + 1
      else
        give(entry, tickets[number], worker, node, said)
        given[#given + 1] = entry
        if kind then lead(leaders, kind, entry, said) end
      end
    end
  end
  return ended
end

-- The best tasks of a queue; if very many end on the way, the rest is left for another look.
local function reserve_from_lanes(queue, left, handles, worker, node, said, given)
  local enough, ended, late = #given + left, 0, 0
  repeat
    local tickets, lanes = best_of(queue, enough - #given, handles)
    take_out(queue, lanes)
    late = give_all(queue, tickets, worker, node, said, given)
    ended = ended + late
    if #tickets > 0 then flush() end
  until late == 0 or #given == enough or ended >= PART
  if ended >= PART then
    wake(queue)
    flush()
  end
end

local function reserve(worker, node, queues, limit, handles)
  local given = {}
  my_node = node
  if drains then return given end
  local said = saying({now, 'reserved', worker, false, false, false, node})
  for _, queue in ipairs(queues) do
    local left = math.min(limit - #given, limit > #given and room(queue, limit) or 0)
    if left > 0 then
      local before, settings = #given, settings_of(queue)
      local take = settings.lined and reserve_from_lines or reserve_from_lanes
      take(queue, left, handles, worker, node, said, given)
      if settings.rate and #given > before then take_tokens(queue, #given - before) end
    end
  end
  return given
end

local LEASE_LOST = 'LEASELOST the worker is not registered, or was buried'
