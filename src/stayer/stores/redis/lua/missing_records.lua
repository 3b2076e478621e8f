-- script: missing_records
-- Take tasks whose records are gone out of all places where they stand. A server that evicts, or a hand, takes a record
-- away alone. Scripts that meet one pass it over and note it; those that nobody meets are found by looking through
-- the lists, a part at a time.
-- ARGV   3 how many of the noted ones to see to, 4 how many members of lists to look at, for others to note
-- returns how many tasks were found to be lost
-- include: tasks, ends, limits, empty_writes

local MISSING_KEPT, LOOKED_AT_ONCE, MANY_LANES = 1000, 1000, 1000
local lost, flows_left, queues_left = 0, {}, {}

-- A list is in the order of creation, and so of numbers, unless the clock was set back: then looking through finds it.
local function place_in(list, ticket)
  local low, high = 0, call('ZCARD', list) - 1
  while low <= high do
    local middle = math.floor((low + high) / 2)
    local member = call('ZRANGE', list, middle, middle)[1]
    local standing = string.sub(member, 17)
    if standing == ticket then return member end
    if standing < ticket then low = middle + 1 else high = middle - 1 end
  end
  return nil
end

local function running_place(list, id, ticket)
  for _, member in ipairs(call('SMEMBERS', list)) do
    if string.sub(member, 29) == id and (not ticket or string.sub(member, 17) == ticket) then return member end
  end
  return nil
end

-- The list in which it stood, and its place there; nothing if that can't be known.
local function leave_lists(queue, id, ticket, place_of)
  for state in pairs(RUNNING) do
    local member = running_place(@state(queue, state), id, ticket)
    if member then
      call('SREM', @state(queue, state), member)
      queues_left[queue] = true
      wake(queue) -- a place is free
      return state, member
    end
  end
  for _, state in ipairs(ticket and LISTS or {}) do
    local list = @state(queue, state)
    local member = place_of or place_in(list, ticket)
    if member and call('ZREM', list, member) == 1 then return state, member end
  end
  return nil
end

local function leave_order(queue, ticket)
  call('ZREM', @ranked(queue), ticket)
  if settings_of(queue).lined then
    for _, line in ipairs(call('SMEMBERS', @lines(queue))) do
      if call('ZREM', @line(queue, line), ticket) == 1 then
        note_touched(lines_touched, queue, line)
        wake(queue) -- for the next in this line
      end
    end
  elseif call('SCARD', @lanes(queue)) <= MANY_LANES then -- else it is met there some time
    for _, lane in ipairs(call('SMEMBERS', @lanes(queue))) do call('ZREM', @lane(queue, lane), ticket) end
  end
end

-- A flow is made in one step with its tasks; on a cluster at about the same time.
local function leave_flow(member)
  local made, apart = tonumber(string.sub(member, 1, 16)), IS_SHARD and 60000000 or 0
  local from, to = string.format('[%016.0f', made - apart), string.format('[%016.0f\255', made + apart)
  for _, each in ipairs(call('ZRANGEBYLEX', @flows(), from, to, 'LIMIT', 0, 1000)) do
    local flow = string.sub(each, 17)
    if call('ZREM', @members(flow), member) == 1 then
      flows_left[flow] = true
      return
    end
  end
end

-- Its state, and when it ended, if it had.
local function leave_finished(queue, id)
  local ended, ended_at
  for state in pairs(FINISHED) do
    local at = call('ZSCORE', @finished(queue, state), id)
    if at then
      call('ZREM', @finished(queue, state), id)
      ended, ended_at = state, tonumber(at)
    end
  end
  for _, fault in ipairs(ended == 'failed' and call('SMEMBERS', @faults(queue)) or {}) do
    if call('ZREM', @failed(queue, fault), id) == 1 and call('EXISTS', @failed(queue, fault)) == 0 then
      call('SREM', @faults(queue), fault)
    end
  end
  return ended, ended_at
end

local function leave_times_and_hands(queue, id)
  call('ZREM', @due(), id)
  call('ZREM', @expiring(), id)
  for _, node in ipairs(call('SMEMBERS', @near_nodes())) do call('ZREM', @near(node), id) end
  for _, worker in ipairs(call('SMEMBERS', @workers())) do
    call('SREM', @held(worker), id)
    call('SREM', @ordered(worker), id)
  end
  move_places({[@QUEUE] = queue, [@ID] = id}, -1)
end

-- Those who wait for it hear of it as of one that was deleted.
local function leave_ties(id, ended)
  if call('EXISTS', @waiters(id)) == 1 then call('HSET', @outbox(), id, ended or 'cancelled') end
  note_afar(id)
  wait_for_nothing(id)
  for _, each in ipairs(call('LRANGE', @upstreams(id), 0, -1)) do
    local upstream = string.sub(each, 2)
    call('SREM', @dependents(upstream), id)
  end
end

local function delete_rest(id)
  call('UNLINK', @parameters(id), @result(id), @history(id), @history_tail(id), @checkpoint(id),
       @upstreams(id), @dependents(id))
  local attempt = 1
  while call('UNLINK', @log(attempt, id), @usage(attempt, id)) > 0 do attempt = attempt + 1 end
end

local function note_lost(queue, id, state)
  lost = lost + 1
  note_event(id, queue, 'deleted', 0, false, 'its record was gone')
  call('LPUSH', @missing(), cjson.encode({id = id, queue = queue, state = state or cjson.null, at = now}))
  call('LTRIM', @missing(), 0, MISSING_KEPT - 1)
end

-- standing: its ticket or its place, if that is known. If it is not, and it does not run, looking through the lists
-- will bring it.
local function leave_queue(queue, id, standing)
  local entry, ticket = fetch(id), standing and string.sub(standing, -12 - #id)
  if entry and (not ticket or ticket_of(id, entry.r[@SEQ]) == ticket) then return end
  local state, member = leave_lists(queue, id, ticket, standing ~= ticket and standing)
  if not (ticket or member) then return end
  if member then leave_flow(member) end
  leave_order(queue, ticket or string.sub(member, 17))
  if entry then return end -- its id belongs to another by now
  local known = call('ZREM', @ids(queue), id) == 1
  local ended, ended_at = leave_finished(queue, id)
  leave_times_and_hands(queue, id)
  leave_ties(id, ended)
  delete_rest(id)
  if ended then
    local created = member and string.sub(member, 1, 16) / 1000000 or ended_at
    call('SET', @purged(id), cmsgpack.pack({queue, ended, created, ended_at, now}), 'EX', @REMEMBERED)
  end
  if known or state or ended then note_lost(queue, id, state == 'held' and 'pending' or state or ended) end
end

local function see_to(id, queue, standing)
  if queue then return leave_queue(queue, id, standing) end
  for _, each in ipairs(call('SMEMBERS', @queues())) do
    if call('ZSCORE', @ids(each), id) then leave_queue(each, id, standing) end
  end
end

-- Each id of a queue stands in one list. If more do, some were submitted again when their records were gone.
local is_odd = memoize(function(queue)
  local standing = running_now(queue)
  for _, state in ipairs(LISTS) do standing = standing + call('ZCARD', @state(queue, state)) end
  return standing == call('ZCARD', @ids(queue)) and 'no' or 'yes'
end)

-- Note what has no record, or that of another, of these, which stand in a list of the queue.
local function look_at(queue, members)
  for first = 1, #members, LOOKED_AT_ONCE do
    local keys, last_one = {}, math.min(first + LOOKED_AT_ONCE - 1, #members)
    for number = first, last_one do
      local id = string.sub(members[number], 29)
      keys[#keys + 1] = @task(id)
    end
    if call('EXISTS', unpack(keys)) < #keys or is_odd(queue) == 'yes' then
      for number = first, last_one do
        local id = string.sub(members[number], 29)
        local entry = fetch(id)
        if not entry or entry.r[@SEQ] ~= tonumber(string.sub(members[number], 17, 28)) then
          note_missing_record(id, queue, members[number])
        end
      end
    end
  end
end

-- A part of all lists, from where the last look ended; of what runs always all, for it may keep others out.
local function look_through(budget)
  local queues = call('SMEMBERS', @queues())
  table.sort(queues)
  for _, queue in ipairs(queues) do
    for state in pairs(RUNNING) do look_at(queue, call('SMEMBERS', @state(queue, state))) end
  end
  local stopped = call('HGET', @meta(), 'looked_through')
  local from_queue, from_list, from = unpack(stopped and cmsgpack.unpack(stopped) or {'', 1, '-'})
  for _, queue in ipairs(queues) do
    for number, state in ipairs(LISTS) do
      local is_first = queue == from_queue and number == from_list
      local lower = is_first and from or '-'
      while is_first or queue > from_queue or (queue == from_queue and number > from_list) do
        local members = call('ZRANGEBYLEX', @state(queue, state), lower, '+', 'LIMIT', 0, LOOKED_AT_ONCE)
        if #members == 0 then break end
        look_at(queue, members)
        budget, lower = budget - #members, '(' .. members[#members]
        if budget <= 0 then return cmsgpack.pack({queue, number, lower}) end
      end
    end
  end
  return cmsgpack.pack({'', 1, '-'})
end

local function recount_keys(queue)
  local counts, known = {}, call('HGETALL', @running(queue))
  for state in pairs(#known > 0 and RUNNING or {}) do
    for _, member in ipairs(call('SMEMBERS', @state(queue, state))) do
      local entry = fetch(string.sub(member, 29))
      local key = entry and entry.r[@KEY]
      if key then counts[key] = (counts[key] or 0) + 1 end
    end
  end
  for at = 1, #known, 2 do
    local key = known[at]
    if counts[key] then call('HSET', @running(queue), key, counts[key]) else call('HDEL', @running(queue), key) end
    if settings_of(queue).lined then note_touched(keys_touched, queue, key) end
  end
end

local function recount_flow(flow)
  local counts, members = {}, call('ZRANGE', @members(flow), 0, -1)
  for number, member in ipairs(members) do members[number] = string.sub(member, 29) end
  for _, value in ipairs(read_all(members)) do
    local entry = value and open_record(value)
    local r = entry and entry.r
    local field = r and r[@STATE] .. ' ' .. (r[@FLOW_PART] or '')
    if field then counts[field] = (counts[field] or 0) + 1 end
  end
  call('DEL', @parts(flow))
  for field, number in pairs(counts) do call('HSET', @parts(flow), field, number) end
end

whatever_memory_is_left()
if tonumber(ARGV[4]) > 0 then
  call('HSET', @meta(), 'looked_through', look_through(tonumber(ARGV[4])))
end
for _, packed in ipairs(call('SPOP', @strays(), ARGV[3])) do see_to(unpack(cmsgpack.unpack(packed))) end
changed_flows = {}
for queue in pairs(queues_left) do recount_keys(queue) end
for flow in pairs(flows_left) do
  recount_flow(flow)
  changed_flows[flow] = {}
end
write_flows()
refresh_touched_lines()
flush()
return lost
