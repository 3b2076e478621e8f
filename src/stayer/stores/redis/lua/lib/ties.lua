-- What new tasks are to run after: {id, upstreams, those that need only have ended, whether the others
-- need no more, the one of them near which it is to run}.
-- include: accept, ends

local states_elsewhere = {} -- of upstreams in other shards, as they were before these tasks came

local function ids_in_use(given)
  local found = {}
  nothing_purged = true
  for _, one in ipairs(given) do
    fetch_all(one[@G_IDS])
    local purged = any_purged(one[@G_IDS])
    if purged then nothing_purged = false end
    for _, id in ipairs(one[@G_IDS]) do
      if fetch(id) or (purged and call('EXISTS', @purged(id)) == 1) then found[#found + 1] = id end
    end
  end
  return found
end

-- What is wrong if the unique word of one of these is held: a flow is whole or not there, and nothing can
-- wait for what is not accepted.
local function look_at_words(given, ties, flow)
  local needed, words = {}, {}
  for _, one in ipairs(ties) do
    for _, list in ipairs({one[@T_AFTER], one[@T_BEHIND]}) do
      for _, id in ipairs(list) do needed[id] = true end
    end
  end
  for _, one in ipairs(given) do
    for number, id in ipairs(one[@G_UNIQUE] and one[@G_IDS] or {}) do
      if (flow or needed[id]) and not fetch(id) then
        local r = open_record(ARGV[one[@G_FIRST] + number - 1]).r
        local word = #r[@QUEUE] .. r[@QUEUE] .. r[@UNIQUE]
        local holder = holder_of(r[@QUEUE], r[@UNIQUE])
        if holder or words[word] then return {'kept out', id, holder and holder.r[@ID] or words[word]} end
        words[word] = id
      end
    end
  end
  return nil
end

local function state_of(id, is_new)
  return is_new[id] and 'pending' or known_state(id) or states_elsewhere[id]
end

local function note_waits(one, waits, is_new)
  local named = {}
  for number, list in ipairs({one[@T_AFTER], one[@T_BEHIND]}) do
    for _, upstream in ipairs(list) do
      local state = state_of(upstream, is_new)
      if not state then return {'unknown upstream', one[@T_ID], upstream} end
      local anyhow = number == 2 or one[@T_ANYHOW]
      -- How the one ended that it is to run near, and where, is told as if it ended now.
      local waits_anyhow = upstream == one[@T_NEAR]
      local counts = state == 'complete' or anyhow and FINISHED[state]
      if not named[upstream] and (waits_anyhow or not counts) then
        waits[#waits + 1] = upstream
        waits[#waits + 1] = number == 1 and 'a' or 'b'
      end
      named[upstream] = true
    end
  end
  return nil
end

-- Fills waits_of; the answer is what is wrong, or nothing. To be called before anything is accepted.
local function look_at_upstreams(given, ties)
  local is_new = {}
  for _, one in ipairs(given) do
    fetch_all(one[@G_IDS])
    for _, id in ipairs(one[@G_IDS]) do is_new[id] = not fetch(id) end
  end
  local elsewhere = {}
  for _, one in ipairs(ties) do
    for _, upstream in ipairs(one[@T_AFTER]) do
      if is_new[upstream] == nil then elsewhere[#elsewhere + 1] = upstream end
    end
  end
  fetch_all(elsewhere)
  for _, one in ipairs(ties) do
    if not fetch(one[@T_ID]) then
      local waits = {}
      local problem = note_waits(one, waits, is_new)
      if problem then return problem end
      if #waits > 0 then waits_of[one[@T_ID]] = waits end
    end
  end
  return nil
end

local ended_before = false
local function add_waiter(upstream, id, waiters)
  write(waiters, @waiters(upstream), id)
  local entry = fetch(upstream)
  if not entry or FINISHED[entry.r[@STATE]] then
    local state = known_state(upstream)
    if state then call('HSET', @outbox(), upstream, state) else note_unknown(upstream) end
    ended_before = true
  end
end

local function add_dependent(upstream, id, sets)
  write(sets, @dependents(upstream), id)
  local entry = fetch(upstream)
  if entry and not entry.r[@DEPENDENTS] then
    touch(entry)
    entry.r[@DEPENDENTS] = true
  end
end

-- To be called when the tasks are accepted; the answer is the ids of those that wait.
local function tie(ties)
  local sets, waiting = {}, {}
  for _, one in ipairs(ties) do
    local id = one[@T_ID]
    local entry = fetch(id)
    -- One that was there before is left as it is.
    if entry and entry.was and not entry.was.state then
      local members = {}
      for number, list in ipairs({one[@T_AFTER], one[@T_BEHIND]}) do
        for _, upstream in ipairs(list) do
          members[#members + 1] = (number == 1 and 'a' or 'b') .. upstream
          add_dependent(upstream, id, sets)
        end
      end
      in_parts('RPUSH', @upstreams(id), members)
      local waits = waits_of[id]
      if waits then
        waiting[#waiting + 1] = id
        in_parts('HSET', @waits(id), waits)
        for number = 1, #waits, 2 do add_waiter(waits[number], id, sets) end
      end
    end
  end
  for key, members in pairs(sets) do in_parts('SADD', key, members) end
  return waiting
end

-- Of a flow with tasks in several shards each knows its own, and all know the same time.
local function add_flow(flow)
  if call('EXISTS', @flow(flow[1])) == 1 then return end
  local created = flow[3] or NOW
  local micros = math.floor(created * 1000000 + 0.5)
  call('SET', @flow(flow[1]),
       string.format('{"created":%s,"micros":%.0f,', created, micros) .. string.sub(flow[2], 2))
  call('ZADD', @flows(), 0, string.format('%016.0f', micros) .. flow[1])
end
