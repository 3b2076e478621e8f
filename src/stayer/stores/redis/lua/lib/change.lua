-- What `Store.commit` does. Changes come in groups of those that differ in nothing but task, attempt and result. A
-- group is what must still hold (state, worker, last_order, late?, the losses that it was decided from, whether its
-- unique word must be free), the effect (to, {field, value, …} to be set, {field, seconds from now, …}, the field that
-- says when it was, event, note, ending, fault and process of the attempt, what it means to hooks (words), ids to wait
-- for, whether it has ended, whether its run has, whether its checkpoint is forgotten, whether its queue and its worker
-- are woken), then ids, attempts, results, how many seconds ago it was (0 but in a group of one), and the argument that
-- is its checkpoint (false but in a group of one); what is not there is false. What the effect means is known to
-- core/effects.py. A result is false (it stays), 0 (none), text, or {form, number of an argument} of what is kept
-- apart; the forms are flags, 4 (text) and 8 (bytes). If an id comes twice, all are groups of one.
-- include: bulk, old_history, ends, unique, notices
-- scope

local function full_name(group, attempt) return (group[@C_WORKER] or 'None') .. ' ' .. attempt end

-- The state in which a change finds the task as it names it; nothing if it does not.
local function state_if_fence_holds(r, group, attempt)
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
  if group[@C_AGO] == 0 then return math.max(now, entry.r[@STARTED_AT] or now) end
  return math.max(now - group[@C_AGO], entry.r[@STARTED_AT] or reserved_at(entry))
end

local function set_fields(entry, group)
  local r, sets, times, moment_field = entry.r, group[@C_SETS], group[@C_TIMES], group[@C_MOMENT]
  local was_at = moment_field and moment_of(entry, group)
  r[@STATE] = group[@C_TO]
  for number = 1, #sets, 2 do r[sets[number]] = sets[number + 1] or nil end
  for number = 1, #times, 2 do r[times[number]] = now + times[number + 1] end
  if moment_field then r[moment_field] = was_at end
end

-- What the history says of a change, without number and attempt; nothing if it is no event. All of a group say the same.
local function event_of(group)
  if group.event_text == nil then
    local about = {now, group[@C_EVENT], group[@C_WORKER] and true, group[@C_NOTE], group[@C_ENDING], group[@C_FAULT], false,
                   group[@C_PID]}
    if group[@C_AGO] ~= 0 then about[#about + 1] = now - group[@C_AGO] end
    group.event_text = group[@C_EVENT] and pack_event(about)
  end
  return group.event_text
end

local function note_change(group, queue, id, attempt)
  return note_event(id, queue, group[@C_EVENT], attempt, group[@C_WORKER], group[@C_NOTE])
end

local function wake_others(r, group, before)
  if group[@C_WAKES_QUEUE] then wake(r[@QUEUE]) end
  if group[@C_WAKES_WORKER] and group[@C_WORKER] then ordered[group[@C_WORKER]] = true end
  -- A place becomes free, which matters only where they are counted.
  if group[@C_ENDS_RUN] and before == group[@C_STATE] and not woken[r[@QUEUE]] then
    local settings = settings_of(r[@QUEUE])
    if settings.limit or (settings.lined and r[@KEY]) then wake(r[@QUEUE]) end
  end
end

-- These are what the task waits for from now on. Should one have ended, it will hear of it.
local has_dependents = false
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
      has_dependents = true
    end
  end
end

-- Whether the change was applied.
local function apply(group, entry, attempt, result)
  local before = entry and state_if_fence_holds(entry.r, group, attempt)
  if not before then return false end
  local r = entry.r
  local needs_word = r[@UNIQUE] and group[@C_UNIQUE_IS_FREE]
  if needs_word and (holder_of(r[@QUEUE], r[@UNIQUE], r[@ID]) or other_promise(r[@UNIQUE], r[@ID])) then return false end
  touch(entry)
  if group[@C_AGO] ~= 0 or entry.ago then entry.ago = group[@C_AGO] end
  set_fields(entry, group)
  set_result(entry, result)
  local event_text, number = event_of(group), 0
  if event_text then
    number = note_change(group, r[@QUEUE], r[@ID], attempt)
    remember(entry, number, attempt, event_text)
  end
  if group[@C_WORDS] and (r[@NOTIFY] or settings_of(r[@QUEUE]).notify) then
    note_notices(entry, group[@C_WORDS], number)
  end
  wake_others(r, group, before)
  if needs_word then note_holder(entry) end
  if group[@C_FORGETS] then call('DEL', @checkpoint(r[@ID])) end
  if group[@C_CHECKPOINT] then
    call('HSET', @checkpoint(r[@ID]), 'attempt', attempt, 'at', exact(now), 'data', ARGV[group[@C_CHECKPOINT]])
  end
  if group[@C_WAITS] then wait_for(r[@ID], group[@C_WAITS]) end
  if group[@C_ENDS] and r[@DEPENDENTS] then
    note_end(r[@ID], r[@STATE])
    has_dependents = true
  end
  return true
end

-- The same of a group of one change.
local function apply_one(group)
  return apply(group, fetch(group[@C_IDS][1]), group[@C_ATTEMPTS][1], group[@C_RESULTS][1])
end

-- What became of the changes of a group: an entry, the value of one that has followed another, or false.
local function apply_group(group, values, keys, applied)
  if group[@C_WAITS] then flush() end -- for it looks at other tasks
  local may_lead = #group[@C_IDS] > 1 and not (group[@C_FORGETS] or group[@C_WAKES_WORKER] or group[@C_WAITS])
  local leaders, ids, before_it = {}, group[@C_IDS], #applied
  for number = 1, #ids do
    local id, at, attempt, result = ids[number], before_it + number, group[@C_ATTEMPTS][number], group[@C_RESULTS][number]
    local value = values[at]
    local leader, kind, own_end, record_end = leader_of(leaders, id, value, result)
    if leader and attempt == leader.r[@ATTEMPT] then
      local event = note_change(group, leader.r[@QUEUE], id, attempt)
      applied[at] = follow(leader, id, place_of(id, created_and_seq(value)), keys[at], value, own_end, record_end,
                           result ~= 0 and result, event)
    else
      local entry = entry_of(id, value)
      local done = apply(group, entry, attempt, result)
      applied[at] = done and entry
      if done and kind and may_lead and event_of(group) then lead(leaders, kind, entry, group.event_text) end
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
