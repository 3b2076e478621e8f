-- What `Store.commit` does. Changes come in groups of those that differ in nothing but task, attempt
-- and result: {state, worker, last_order, to, ending, order?, returned?, late?, note, delay (nil, seconds
-- or 'none'), two more that make them alike, from the start?, ids to wait for, {field, value, …} to be set,
-- what it means to those who want to hear (words, or false), changes}; what is not there is false. A change
-- is {id, attempt, form and value of the result}.

local C_STATE, C_WORKER, C_LAST_ORDER, C_TO, C_ENDING, C_ORDER, C_RETURNED, C_LATE, C_NOTE, C_DELAY,
  C_FROM_START, C_WAITS, C_SETS, C_WORDS, C_CHANGES = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16, 17

local function full_name(group, attempt) return (group[C_WORKER] or 'None') .. ' ' .. attempt end

-- The state in which a change finds the task as it names it; nothing if it does not.
local function found_as_named(r, group, attempt)
  if r[ATTEMPT] ~= attempt then return nil end
  if r[STATE] == group[C_STATE] and (r[WORKER] or false) == group[C_WORKER]
    and (r[LAST_ORDER] or 0) == group[C_LAST_ORDER] then
    return r[STATE]
  end
  if group[C_LATE] and r[STATE] == 'pending' and r[RETURNED_FROM] == full_name(group, attempt) then
    return 'pending'
  end
  return nil
end

-- forms: nil (unchanged), 0 (none), 1 (text, in the record), 4 and 8 (apart, as text or bytes; then
-- the value is the number of an argument)
local function set_result(entry, form, value)
  if not form then return end
  local id = entry.r[ID]
  if bit.band(entry.flags, 12) ~= 0 and form < 4 then call('DEL', key_result(id)) end
  entry.flags = bit.band(entry.flags, 51)
  entry.r[RESULT] = form == 1 and value or nil
  if form >= 4 then
    entry.flags = bit.bor(entry.flags, form)
    call('SET', key_result(id), ARGV[value])
  end
end

local function set_what_follows(r, group, attempt)
  local from, to = group[C_STATE], group[C_TO]
  r[STATE] = to
  r[UPDATED] = now
  r[RETURNED_FROM] = group[C_RETURNED] and full_name(group, attempt) or nil
  local delay = group[C_DELAY]
  if delay then r[ETA] = delay ~= 'none' and now + delay or nil end
  if to ~= from then
    if to == 'started' then
      r[STARTED_AT], r[START_BEFORE] = now, nil
    elseif QUEUED[to] then
      r[WORKER], r[NODE], r[PID], r[STARTED_AT], r[USAGE] = nil, nil, nil, nil, nil
    end
    if from == 'started' then r[PAUSED] = nil end
    if FINISHED[to] then
      r[FINISHED_AT] = now
    elseif FINISHED[from] then
      r[FINISHED_AT], r[ENDING], r[START_BEFORE], r[FINGERPRINT] = nil, nil, nil, nil
    end
  end
  if group[C_ENDING] then r[ENDING] = group[C_ENDING] end
  if group[C_LATE] then r[WORKER] = group[C_WORKER] or nil end
  if group[C_ORDER] then r[LAST_ORDER] = (r[LAST_ORDER] or 0) + 1 end
end

-- What a change says that finds its task in this state; all of a group say the same.
local function words_of(group, before, r, fault)
  local to, worker, ending = group[C_TO], group[C_WORKER], group[C_ENDING]
  local event, note, pid = false, false, false
  if to ~= before then
    event, note = to, ending
    if group[C_NOTE] then note = note and (note .. ': ' .. group[C_NOTE]) or group[C_NOTE] end
    pid = to == 'started' and r[PID] or false
  elseif group[C_NOTE] then
    local from, to = string.find(group[C_NOTE], ': ', 1, true)
    event = from and string.sub(group[C_NOTE], 1, from - 1) or group[C_NOTE]
    note = from and string.sub(group[C_NOTE], to + 1) or false
  end
  ending = worker and ending
  local said = (event or ending)
    and saying({now, event or '', worker and true, note, ending, ending and fault, false, pid})
  return {event = event, note = note, said = said}
end

local function trace(entry, group, attempt, before, fault)
  local words = group[before]
  if not words then
    words = words_of(group, before, entry.r, fault)
    group[before] = words
  end
  local number = 0
  if words.event then
    local r = entry.r
    number = note_event(r[ID], r[QUEUE], words.event, attempt, group[C_WORKER], words.note)
  end
  if words.said then remember(entry, number, attempt, words.said) end
  return number
end

local function tell(r, group, before)
  local to = group[C_TO]
  -- A new eta may be the next one due: those who sleep until then should look again.
  if to ~= before and (to == 'pending' or to == 'scheduled') then wake(r[QUEUE]) end
  -- A place becomes free, which matters only where they are counted.
  if RUNNING[before] and not RUNNING[to] and not woken[r[QUEUE]] then
    local settings = settings_of(r[QUEUE])
    if settings.limit or (settings.lined and r[KEY]) then wake(r[QUEUE]) end
  end
  if group[C_ORDER] then
    wake(r[QUEUE])
    if group[C_WORKER] then ordered[group[C_WORKER]] = true end
  end
end

-- These are what the task waits for from now on. Should one have ended, it will be told of it.
local told = false
local function wait_for(id, upstreams)
  local kinds = {}
  for _, each in ipairs(call('LRANGE', key_upstreams(id), 0, -1)) do
    kinds[string.sub(each, 2)] = string.sub(each, 1, 1)
  end
  wait_for_nothing(id)
  for _, upstream in ipairs(upstreams) do
    call('HSET', key_waits(id), upstream, kinds[upstream] or 'b')
    call('SADD', key_waiters(upstream), id)
    call('SADD', key_dependents(upstream), id)
    local entry = fetch(upstream)
    if entry and not entry.r[DEPENDENTS] then
      touch(entry)
      entry.r[DEPENDENTS] = true
    end
    if not entry or FINISHED[entry.r[STATE]] then
      local state = known_state(upstream)
      if state then note_end(upstream, state) else note_unknown(upstream) end
      told = true
    end
  end
end

-- The entry if the change was applied, else false.
local function apply(group, change)
  local entry = fetch(change[1])
  local attempt = change[2]
  local before = entry and found_as_named(entry.r, group, attempt)
  if not before then return false end
  local r, fault, sets = entry.r, false, group[C_SETS]
  local revives = r[UNIQUE] and FINISHED[before] and not FINISHED[group[C_TO]]
  if revives and (holder_of(r[QUEUE], r[UNIQUE], r[ID]) or promised(r[UNIQUE], r[ID])) then return false end
  touch(entry)
  if QUEUED[group[C_TO]] and group[C_TO] ~= before then r[NEAR_NODE], r[NEAR_UNTIL] = nil, nil end
  for number = 1, #sets, 2 do
    r[sets[number]] = sets[number + 1] or nil
    if sets[number] == NEAR_UNTIL then r[NEAR_UNTIL] = now + sets[number + 1] end
    if sets[number] == ERROR then fault = sets[number + 1] end
  end
  set_result(entry, change[3], change[4])
  set_what_follows(r, group, attempt)
  local number = trace(entry, group, attempt, before, fault)
  if group[C_WORDS] and (r[NOTIFY] or settings_of(r[QUEUE]).notify) then
    note_notices(entry, group[C_WORDS], number)
  end
  tell(r, group, before)
  if revives then note_holder(entry) end
  if group[C_FROM_START] then
    r[PROGRESS], r[CHECKPOINT_AT] = nil, nil
    call('DEL', key_checkpoint(r[ID]))
  end
  if group[C_WAITS] then wait_for(r[ID], group[C_WAITS]) end
  if r[DEPENDENTS] and FINISHED[r[STATE]] then
    note_end(r[ID], r[STATE])
    told = true
  end
  return entry
end

-- What became of each change of all groups, in their order.
local function apply_all(groups_of_changes)
  local ids, applied = {}, {}
  for _, each in ipairs(groups_of_changes) do
    for _, change in ipairs(each[C_CHANGES]) do ids[#ids + 1] = change[1] end
  end
  fetch_all(ids)
  for _, each in ipairs(groups_of_changes) do
    for _, change in ipairs(each[C_CHANGES]) do applied[#applied + 1] = apply(each, change) end
  end
  flush()
  return applied
end
