-- Giving tasks to a worker.
-- include: choose, limits, bulk, expire, answer
-- scope

local function take_out(queue, lanes)
  for _, lane in ipairs(lanes) do
    if lane.ticket then
      call('ZREM', lane.key, lane.ticket)
      lane.score = call('EXISTS', lane.key) == 1
    elseif lane.taken > 0 then
      call('ZREMRANGEBYRANK', lane.key, 0, lane.taken - 1)
    end
    if not lane.score then call('SREM', @lanes(queue), lane.lane) end
  end
end

local function take_tokens(queue, number)
  local settings = settings_of(queue)
  settings.tokens, settings.tokens_at = rate_level(settings) - number, now
  call('HSET', @queue(queue), 'tokens', exact(settings.tokens), 'tokens_at', NOW)
end

local function note_given(id, r) return note_event(id, r[@QUEUE], 'reserved', r[@ATTEMPT], r[@WORKER], false) end

local function give(entry, stood, worker, node, event_text)
  touch(entry)
  entry.popped, entry.ticket = not settings_of(entry.r[@QUEUE]).lined, stood
  local r = entry.r
  r[@STATE], r[@ATTEMPT], r[@UPDATED], r[@WORKER], r[@NODE] = 'reserved', r[@ATTEMPT] + 1, now, worker, node
  r[@PID], r[@ENDING], r[@STARTED_AT], r[@RETURNED_FROM], r[@PAUSED], r[@USAGE] = nil, nil, nil, nil, nil, nil
  remember(entry, note_given(r[@ID], r), r[@ATTEMPT], event_text)
end

-- The node of a worker; nothing if it is unknown or declared lost, or, in a shard of a cluster, was introduced and has
-- not proven to be alive. One that drains, or is to, may take no tasks.
local drains
local function node_of(worker)
  local known = call('HMGET', @worker(worker), 'node', 'dead', 'draining', 'unproven', 'drain')
  drains = known[3] == '1' or known[5]
  return not known[2] and not known[4] and known[1] or nil
end

-- What each share has used, and what a usual run is.
local function turns_of(queue)
  local used, all_used, all_runs = {}, 0, 0
  local known = call('HGETALL', @shares(queue))
  for number = 1, #known, 2 do
    local seconds, runs = share_now(known[number + 1])
    used[known[number]] = seconds
    all_used, all_runs = all_used + seconds, all_runs + runs
    if runs == 0 then call('HDEL', @shares(queue), known[number]) end
  end
  local usual = @USUAL_RUN
  if all_runs > 0 and all_used > 0 then usual = all_used / all_runs end
  for _, run in ipairs(call('HVALS', @runs(queue))) do
    local _, head, since = string.find(run, '^(%S+) ')
    local share = string.sub(run, head + 1)
    used[share] = (used[share] or 0) + math.max(now - since, usual)
  end
  return {used = used, usual = usual}
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
  local heads = call('HGETALL', @heads(queue))
  for number = 1, #heads, 2 do
    if heads[number + 1] == standing then
      call('ZREM', @line(queue, heads[number]), standing)
      note_touched(lines_touched, queue, heads[number])
    end
  end
  pass_over(queue, standing)
  refresh_touched_lines()
end

-- One by one, for each that is taken may fill its key or give the turn to another.
local function reserve_from_lines(queue, left, handles, worker, node, event_text, given)
  local lanes = lanes_for(queue, handles)
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
    if not matches_ticket(entry, best.ticket) then
      call('ZREM', best.key, best.ticket)
      lanes_changed[best.lane] = true
      pass_over_in_line(queue, best.ticket)
    elseif is_late(entry.r) then
      expire(entry)
    else
      give(entry, best.ticket, worker, node, event_text)
      if turns then turns.used[best.share] = (turns.used[best.share] or 0) + turns.usual end
      given[#given + 1] = entry
      left = left - 1
    end
    flush()
  end
end

-- Gives these, which are then to be taken out of their lanes. What is too old to be started ends on the way, and what has no record is
-- passed over: how many these are.
local function give_all(queue, tickets, worker, node, event_text, given)
  local ids, leaders, ended = ids_of(tickets), {}, 0
  local values, keys = read_all(ids)
  for number = 1, #ids do
    local id, value = ids[number], values[number]
    local leader, kind, own_end, record_end = leader_of(leaders, id, value)
    local created, seq
    if leader then created, seq = created_and_seq(value) end
    if leader and seq - string.sub(tickets[number], 1, 12) == 0 then
      given[#given + 1] = follow(leader, id, micros(created) .. tickets[number], keys[number], value, own_end,
                                 record_end, nil, note_given(id, leader.r))
    else
      local entry = entry_of(id, value)
      if not matches_ticket(entry, tickets[number]) then
        pass_over(queue, tickets[number])
        ended = ended + 1
      elseif is_late(entry.r) then
        entry.popped, entry.ticket = true, tickets[number]
        expire(entry)
        ended = ended + 1
      else
        give(entry, tickets[number], worker, node, event_text)
        given[#given + 1] = entry
        if kind then lead(leaders, kind, entry, event_text) end
      end
    end
  end
  return ended
end

-- The best tasks of a queue; if very many end on the way, the rest is left for another look.
local function reserve_from_lanes(queue, left, handles, worker, node, event_text, given)
  local enough, ended, late = #given + left, 0, 0
  repeat
    local tickets, lanes = best_of(queue, enough - #given, handles)
    late = give_all(queue, tickets, worker, node, event_text, given)
    ended = ended + late
    if #tickets > 0 then flush() end
    take_out(queue, lanes) -- not before: what could not be written can be given again
  until late == 0 or #given == enough or ended >= @ARGUMENTS_AT_ONCE
  if ended >= @ARGUMENTS_AT_ONCE then
    wake(queue)
    flush()
  end
end

-- What is given, and what went wrong with the first queue of which nothing could be given.
local function reserve(worker, node, queues, limit, handles)
  local given, problem = {}, nil
  my_node = node
  if drains then return given end
  local event_text = pack_event({now, 'reserved', worker, false, false, false, node})
  for _, queue in ipairs(queues) do
    local left = math.min(limit - #given, limit > #given and room(queue, limit) or 0)
    if left > 0 then
      local before, settings = #given, settings_of(queue)
      local take, done = settings.lined and reserve_from_lines or reserve_from_lanes, nil
      done, problem = pcall(take, queue, left, handles, worker, node, event_text, given)
      if not done then
        for number = #given, before + 1, -1 do given[number] = nil end
        break
      end
      if settings.rate and #given > before then take_tokens(queue, #given - before) end
    end
  end
  return given, problem
end

local LEASE_LOST = 'LEASELOST the worker is not registered, or was declared lost'
