-- What `Store.commit` does with one change (see changes.py for its parts).

local C_ID, C_STATE, C_WORKER, C_ATTEMPT, C_LAST_ORDER, C_TO, C_ENDING, C_ORDER, C_RETURNED, C_LATE,
  C_NOTE, C_DELAY, C_SETS, C_RESULT_FORM, C_RESULT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15

local function full_name(change) return (change[C_WORKER] or 'None') .. ' ' .. change[C_ATTEMPT] end

-- The state in which the change finds the task as it names it; nothing if it does not.
local function found_as_named(r, change)
  if r[ATTEMPT] ~= change[C_ATTEMPT] then return nil end
  if r[STATE] == change[C_STATE] and r[WORKER] == change[C_WORKER]
    and r[LAST_ORDER] == change[C_LAST_ORDER] then
    return r[STATE]
  end
  if change[C_LATE] and r[STATE] == 'pending' and r[RETURNED_FROM] == full_name(change) then
    return 'pending'
  end
  return nil
end

-- forms: false (unchanged), 0 (none), 1 (text, in the record), 4 and 8 (apart, as text or bytes; then
-- the value is the number of an argument)
local function set_result(entry, form, value)
  if not form then return end
  local id = entry.r[ID]
  if bit.band(entry.flags, 12) ~= 0 and form < 4 then call('DEL', key_result(id)) end
  entry.flags = bit.band(entry.flags, 19)
  entry.r[RESULT] = form == 1 and value
  if form >= 4 then
    entry.flags = bit.bor(entry.flags, form)
    call('SET', key_result(id), ARGV[value])
  end
end

local function set_what_follows(r, change)
  local from, to = change[C_STATE], change[C_TO]
  r[STATE] = to
  r[UPDATED] = now
  r[RETURNED_FROM] = change[C_RETURNED] and full_name(change)
  local delay = change[C_DELAY]
  if delay then r[ETA] = delay ~= true and now + delay end
  if to ~= from then
    if to == 'started' then
      r[STARTED_AT] = now
    elseif QUEUED[to] then
      r[WORKER], r[NODE], r[PID], r[STARTED_AT], r[USAGE] = false, false, false, false, false
    end
    if from == 'started' then r[PAUSED] = false end
    if FINISHED[to] then
      r[FINISHED_AT] = now
    elseif FINISHED[from] then
      r[FINISHED_AT], r[ENDING] = false, false
    end
  end
  if change[C_ENDING] then r[ENDING] = change[C_ENDING] end
  if change[C_LATE] then r[WORKER] = change[C_WORKER] end
  if change[C_ORDER] then r[LAST_ORDER] = r[LAST_ORDER] + 1 end
end

local function trace(entry, change, before, fault)
  local to, worker, attempt = change[C_TO], change[C_WORKER], change[C_ATTEMPT]
  local event, note, pid = false, false, false
  if to ~= before then
    event, note = to, change[C_ENDING]
    if change[C_NOTE] then note = note and (note .. ': ' .. change[C_NOTE]) or change[C_NOTE] end
    pid = to == 'started' and entry.r[PID]
  elseif change[C_NOTE] then
    event = change[C_NOTE]
  end
  local ending = worker and change[C_ENDING]
  local number = event and happened(entry, event, attempt, worker, note) or 0
  if event or ending then
    remember(entry, {number, now, event or '', attempt, worker and true, note, ending,
                     ending and fault, false, pid})
  end
end

local function has_limit(queue) return call('HEXISTS', key_queue(queue), 'limit') == 1 end

local function tell(r, change, before)
  local to = change[C_TO]
  if to ~= before and to == 'pending' then wake(r[QUEUE]) end
  -- A place becomes free, which matters only where they are counted.
  if RUNNING[before] and not RUNNING[to] and not woken[r[QUEUE]] and has_limit(r[QUEUE]) then
    wake(r[QUEUE])
  end
  if change[C_ORDER] then
    wake(r[QUEUE])
    if change[C_WORKER] then ordered[change[C_WORKER]] = true end
  end
end

-- The entry if the change was applied, else false.
local function apply(change)
  local entry = fetch(change[C_ID])
  local before = entry and found_as_named(entry.r, change)
  if not before then return false end
  touch(entry)
  local r, fault, sets = entry.r, false, change[C_SETS]
  for number = 1, #sets, 2 do
    r[sets[number]] = sets[number + 1]
    if sets[number] == ERROR then fault = sets[number + 1] end
  end
  set_result(entry, change[C_RESULT_FORM], change[C_RESULT])
  set_what_follows(r, change)
  trace(entry, change, before, fault)
  tell(r, change, before)
  return entry
end
