-- What `Store.commit` does. Changes come in groups of those that differ in nothing but task, attempt
-- and result: {state, worker, last_order, to, ending, order?, returned?, late?, note, delay (nil, seconds
-- or 'none'), two more that make them alike, from the start?, ids to wait for, {field, value, …} to be set,
-- what it means to those who want to hear (words, or false), ids, attempts, results, how many seconds ago it
-- was (0 but in a group of one), the losses that it was decided from, the argument that is its checkpoint (both
-- false but in a group of one)}; what is not there is false. A result is false (it stays), 0 (none), text, or {form, number of an argument} of what
-- is kept apart; the forms are flags, 4 (text) and 8 (bytes). If an id comes twice, all are groups of one.
-- include: bulk, old_history, ends, unique, notices
-- scope

local function full_name(group, attempt) return (group[@C_WORKER] or 'None') .. ' ' .. attempt end

-- The state in which a change finds the task as it names it; nothing if it does not.
local function found_as_named(r, group, attempt)
  if r[@ATTEMPT] ~= attempt then return nil end
  if group[@C_LOSSES] and (r[@LOSSES] or 0) ~= group[@C_LOSSES] then return nil end
  if r[@STATE] == group[@C_STATE] and (r[@WORKER] or false) == group[@C_WORKER]
    and (r[@LAST_ORDER] or 0) == group[@C_LAST_ORDER] then
    return r[@STATE]
  end
  if group[@C_LATE] and r[@STATE] == 'pending' and r[@RETURNED_FROM] == full_name(group, attempt) then
    return 'pending'
  end
  return nil
end

local function set_result(entry, result)
  if not result then return end
  local id, is_apart = entry.r[@ID], type(result) == 'table'
  if bit.band(entry.flags, 12) ~= 0 and not is_apart then call('DEL', @result(id)) end
  entry.flags = bit.band(entry.flags, 51)
  entry.r[@RESULT] = type(result) == 'string' and result or nil
  if is_apart then
    entry.flags = bit.bor(entry.flags, result[1])
    call('SET', @result(id), ARGV[result[2]])
  end
end

-- When it was; nothing happens before what is known, whatever clock somebody went by.
local function moment_of(entry, group)
  if group[@C_AGO] == 0 then return math.max(now, RUNNING[entry.r[@STATE]] and entry.r[@STARTED_AT] or now) end
  return math.max(now - group[@C_AGO], entry.r[@STARTED_AT] or reserved_at(entry))
end

local function set_what_follows(entry, group, attempt)
  local r, from, to, was_at = entry.r, group[@C_STATE], group[@C_TO], moment_of(entry, group)
  r[@STATE] = to
  r[@UPDATED] = now
  r[@RETURNED_FROM] = group[@C_RETURNED] and full_name(group, attempt) or nil
  local delay = group[@C_DELAY]
  if delay then r[@ETA] = delay ~= 'none' and now + delay or nil end
  if to ~= from then
    if to == 'started' then
      r[@STARTED_AT], r[@START_BEFORE] = was_at, nil
    elseif QUEUED[to] then
      r[@WORKER], r[@NODE], r[@PID], r[@STARTED_AT], r[@USAGE] = nil, nil, nil, nil, nil
    end
    if from == 'started' then r[@PAUSED] = nil end
    if FINISHED[to] then
      r[@FINISHED_AT] = was_at
    elseif FINISHED[from] then
      r[@FINISHED_AT], r[@ENDING], r[@START_BEFORE], r[@FINGERPRINT] = nil, nil, nil, nil
    end
  end
  if group[@C_ENDING] then r[@ENDING] = group[@C_ENDING] end
  if group[@C_LATE] then r[@WORKER] = group[@C_WORKER] or nil end
  if group[@C_ORDER] then r[@LAST_ORDER] = (r[@LAST_ORDER] or 0) + 1 end
end

-- What a change says that finds its task in this state; all of a group say the same.
local function words_of(group, before, r, fault)
  local to, worker, ending = group[@C_TO], group[@C_WORKER], group[@C_ENDING]
  local event, note, pid = false, false, false
  if to ~= before then
    event, note = to, ending
    if group[@C_NOTE] then note = note and (note .. ': ' .. group[@C_NOTE]) or group[@C_NOTE] end
    pid = to == 'started' and r[@PID] or false
  elseif group[@C_NOTE] then
    local from, to = string.find(group[@C_NOTE], ': ', 1, true)
    event = from and string.sub(group[@C_NOTE], 1, from - 1) or group[@C_NOTE]
    note = from and string.sub(group[@C_NOTE], to + 1) or false
  end
  ending = worker and ending
  local about = {now, event or '', worker and true, note, ending, ending and fault, false, pid}
  if group[@C_AGO] ~= 0 then about[#about + 1] = now - group[@C_AGO] end
  local said = (event or ending) and saying(about)
  return {event = event, note = note, said = said}
end

-- The number of the event that a change is, 0 if it is none, and what the history says of it.
local function traced(group, before, r, id, attempt, fault)
  local words = group[before]
  if not words then
    words = words_of(group, before, r, fault)
    group[before] = words
  end
  local number = 0
  if words.event then number = note_event(id, r[@QUEUE], words.event, attempt, group[@C_WORKER], words.note) end
  return number, words.said
end

local function tell(r, group, before)
  local to = group[@C_TO]
  -- A new eta may be the next one due: those who sleep until then should look again.
  if to ~= before and (to == 'pending' or to == 'scheduled') then wake(r[@QUEUE]) end
  -- A place becomes free, which matters only where they are counted.
  if RUNNING[before] and not RUNNING[to] and not woken[r[@QUEUE]] then
    local settings = settings_of(r[@QUEUE])
    if settings.limit or (settings.lined and r[@KEY]) then wake(r[@QUEUE]) end
  end
  if group[@C_ORDER] then
    wake(r[@QUEUE])
    if group[@C_WORKER] then ordered[group[@C_WORKER]] = true end
  end
end

-- These are what the task waits for from now on. Should one have ended, it will be told of it.
local told = false
local function wait_for(id, upstreams)
  local kinds = {}
  for _, each in ipairs(call('LRANGE', @upstreams(id), 0, -1)) do
    kinds[string.sub(each, 2)] = string.sub(each, 1, 1)
  end
  wait_for_nothing(id)
  for _, upstream in ipairs(upstreams) do
    call('HSET', @waits(id), upstream, kinds[upstream] or 'b')
    call('SADD', @waiters(upstream), id)
    call('SADD', @dependents(upstream), id)
    local entry = fetch(upstream)
    if entry and not entry.r[@DEPENDENTS] then
      touch(entry)
      entry.r[@DEPENDENTS] = true
    end
    if not entry or FINISHED[entry.r[@STATE]] then
      local state = known_state(upstream)
      if state then note_end(upstream, state) else note_unknown(upstream) end
      told = true
    end
  end
end

-- Whether the change was applied, and in which state it found the task.
local function apply(group, entry, attempt, result)
  local before = entry and found_as_named(entry.r, group, attempt)
  if not before then return false end
  local r, fault, sets = entry.r, false, group[@C_SETS]
  local revives = r[@UNIQUE] and FINISHED[before] and not FINISHED[group[@C_TO]]
  if revives and (holder_of(r[@QUEUE], r[@UNIQUE], r[@ID]) or promised(r[@UNIQUE], r[@ID])) then return false end
  touch(entry)
  if QUEUED[group[@C_TO]] and group[@C_TO] ~= before then r[@NEAR_NODE], r[@NEAR_UNTIL] = nil, nil end
  for number = 1, #sets, 2 do
    r[sets[number]] = sets[number + 1] or nil
    if sets[number] == @NEAR_UNTIL then r[@NEAR_UNTIL] = now + sets[number + 1] end
    if sets[number] == @ERROR then fault = sets[number + 1] end
  end
  set_result(entry, result)
  if group[@C_AGO] ~= 0 or entry.ago then entry.ago = group[@C_AGO] end
  set_what_follows(entry, group, attempt)
  local number, said = traced(group, before, r, r[@ID], attempt, fault)
  if said then remember(entry, number, attempt, said) end
  if group[@C_WORDS] and (r[@NOTIFY] or settings_of(r[@QUEUE]).notify) then
    note_notices(entry, group[@C_WORDS], number)
  end
  tell(r, group, before)
  if revives then note_holder(entry) end
  if group[@C_FROM_START] then
    r[@PROGRESS], r[@CHECKPOINT_AT] = nil, nil
    call('DEL', @checkpoint(r[@ID]))
  end
  if group[@C_CHECKPOINT] then
    call('HSET', @checkpoint(r[@ID]), 'attempt', attempt, 'at', exact(now), 'data', ARGV[group[@C_CHECKPOINT]])
    r[@CHECKPOINT_AT], r[@LOSSES] = now, nil
  end
  if group[@C_WAITS] then wait_for(r[@ID], group[@C_WAITS]) end
  if r[@DEPENDENTS] and FINISHED[r[@STATE]] then
    note_end(r[@ID], r[@STATE])
    told = true
  end
  return true, before
end

-- The same of a group of one change.
local function apply_one(group)
  return (apply(group, fetch(group[@C_IDS][1]), group[@C_ATTEMPTS][1], group[@C_RESULTS][1]))
end

-- What became of the changes of a group: an entry, the value of one that has followed another, or false.
local function apply_group(group, values, keys, applied)
  if group[@C_WAITS] then flush() end -- for it looks at other tasks
  local may_lead = #group[@C_IDS] > 1 and not (group[@C_FROM_START] or group[@C_ORDER])
  local leaders, ids, before_it = {}, group[@C_IDS], #applied
  for number = 1, #ids do
    local id, at, attempt, result = ids[number], before_it + number, group[@C_ATTEMPTS][number], group[@C_RESULTS][number]
    local value = values[at]
    local leader, kind, own_end, record_end = leader_of(leaders, id, value, result)
    if leader and attempt == leader.r[@ATTEMPT] then
      local event = traced(group, leader.others.before, leader.r, id, attempt)
      applied[at] = follow(leader, id, place_of(id, created_and_seq(value)), keys[at], value, own_end, record_end,
                           result ~= 0 and result, event)
    else
      local entry = entry_of(id, value)
      local done, before = apply(group, entry, attempt, result)
      applied[at] = done and entry
      if done and kind and may_lead and group[before].said then
        lead(leaders, kind, entry, before, group[before].said)
      end
    end
  end
end

-- What became of each change of all groups, in their order.
local function apply_all(groups_of_changes)
  local ids, applied = {}, {}
  for _, group in ipairs(groups_of_changes) do
    local before_it = #ids
    for number = 1, #group[@C_IDS] do ids[before_it + number] = group[@C_IDS][number] end
  end
  local values, keys = read_all(ids)
  for _, group in ipairs(groups_of_changes) do apply_group(group, values, keys, applied) end
  flush()
  return applied
end

-- Whether a change was not applied: perhaps because it had been already.
local function is_any_refused(applied)
  for number = 1, #applied do
    if not applied[number] then return true end
  end
  return false
end
