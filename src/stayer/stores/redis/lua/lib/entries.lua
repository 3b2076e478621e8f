-- Tasks while a script works on them: read once, changed in memory, written once.
--
-- An entry has: r, the record, in which what is not there is nil or false; flags; history; once touched, `was`:
-- what the indexes know of it; and `others`, if it leads some (see lib/bulk.lua).
-- include: base, record
-- scope

local RUNNING = {reserved = true, started = true}
local FINISHED = {complete = true, failed = true, cancelled = true}
local QUEUED = {waiting = true, scheduled = true, pending = true}

-- The lists of a queue that are sorted: of what does not run.
local LISTS = {'waiting', 'scheduled', 'pending', 'held', 'complete', 'failed', 'cancelled'}

local entries = {}
local touched = {}

local function fetch(id)
  local entry = entries[id]
  if entry == nil then
    local value = call('MGET', @task(id))[1] -- which is nothing if it is of another type
    entry = value and open_record(value) or false
    entries[id] = entry
  end
  return entry
end

-- What is stored of many, false where there is nothing, and their keys.
local function read_all(ids)
  local keys, count = {}, #ids
  for number = 1, count do keys[number] = @task(ids[number]) end
  local values = {}
  for first = 1, count, @ARGUMENTS_AT_ONCE do
    for _, value in ipairs(call('MGET', unpack(keys, first, math.min(first + @ARGUMENTS_AT_ONCE - 1, count)))) do
      values[#values + 1] = value and is_whole(value) and value
    end
  end
  return values, keys
end

-- Read many at once, for the fetches that follow.
local function fetch_all(ids)
  for number, value in ipairs(read_all(ids)) do
    local id = ids[number]
    if entries[id] == nil then entries[id] = value and open_record(value) or false end
  end
end

-- Something stands where only a task with a record may, or with another record: missing_records.lua sees to the rest of it. Of
-- what it stands there with, its queue and its ticket or place, all that is known is given.
local function note_missing_record(id, queue, standing)
  call('SADD', @strays(), cmsgpack.pack({id, queue or false, standing or false}))
end

-- To be called before an entry is changed.
local function touch(entry)
  if not entry.touched then
    entry.touched = true
    touched[#touched + 1] = entry
    local r = entry.r
    entry.was = {state = r[@STATE], held = r[@HELD], priority = r[@PRIORITY], eta = r[@ETA], worker = r[@WORKER],
                 orders = r[@ORDERS], start_before = r[@START_BEFORE], fingerprint = r[@FINGERPRINT],
                 near = r[@NEAR_NODE]}
  end
end

-- The list that shows the task: its state, but what is held does not stand among what can be taken.
local function shelf(state, held)
  if state == 'pending' and held then return 'held' end
  return state
end

-- What stands for the task in a lane, and, with its time in front, in a list.
local function ticket_of(id, seq) return string.format('%012d', seq) .. id end
local function ticket(entry)
  if not entry.ticket then entry.ticket = ticket_of(entry.r[@ID], entry.r[@SEQ]) end
  return entry.ticket
end

local created_last, created_text
local function micros(created)
  if created ~= created_last then
    created_last = created
    created_text = string.format('%016d', math.floor(created * 1000000 + 0.5))
  end
  return created_text
end
local function place_of(id, created, seq) return string.format('%s%012d%s', micros(created), seq, id) end
local function place(entry) return micros(entry.r[@CREATED]) .. ticket(entry) end

-- Whether it is too late to start it.
local function is_late(r) return r[@START_BEFORE] and r[@START_BEFORE] <= now end
