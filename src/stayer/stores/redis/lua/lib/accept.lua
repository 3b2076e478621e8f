-- Accepting what has to be looked at one by one: see lib/submit.lua.
-- include: submit, tasks, unique
-- scope

-- One task, looked up first. The answer is the entry and how it came: 0 fresh, 1 it was there, 2 it was
-- purged (then the entry is what is left of it), 3 its unique word is promised (then it is to whom).
local nothing_purged = false -- it has been looked at: none of these ids was ever here
local waits_of = {} -- id → {id, a or b, …} of what a new task has to wait for
local function accept(group, number)
  local id, apart = group[@G_IDS][number], group[@G_APART][number]
  local there = fetch(id)
  if there then return there, 1 end
  local left = not nothing_purged and call('GET', @purged(id))
  if left and cmsgpack.unpack(left)[5] > now - @REMEMBERED then return left, 2 end
  local entry = open_record(ARGV[group[@G_FIRST] + number - 1])
  local r = entry.r
  local holder = r[@UNIQUE] and holder_of(r[@QUEUE], r[@UNIQUE])
  if holder then return holder, 1 end
  local promise = r[@UNIQUE] and other_promise(r[@UNIQUE], id)
  if promise then return promise, 3 end
  if left then call('DEL', @purged(id)) end
  r[@CREATED], r[@UPDATED] = now, now
  if group[@G_DELAY] then r[@ETA] = now + group[@G_DELAY] end
  if tonumber(group[@G_EXPIRE]) then r[@START_BEFORE] = now + group[@G_EXPIRE] end
  if group[@G_DEADLINE] then
    r[@FINISH_BEFORE] = now + group[@G_DEADLINE]
    r[@START_BEFORE] = math.min(r[@START_BEFORE] or r[@FINISH_BEFORE], r[@FINISH_BEFORE])
  end
  if waits_of[id] then
    r[@STATE] = 'waiting'
    entry.flags = entry.flags + 32
  elseif r[@ETA] and r[@ETA] > now then
    r[@STATE] = 'scheduled'
    entry.flags = entry.flags + 16
  end
  if apart then call('SET', @parameters(id), ARGV[apart]) end
  entry.touched, entry.was = true, {}
  entries[id] = entry
  touched[#touched + 1] = entry
  if r[@UNIQUE] then
    note_holder(entry)
    if #KEYS > 0 then call('HDEL', @promised(), r[@UNIQUE]) end
  end
  r[@SEQ] = note_event(id, r[@QUEUE], r[@STATE], 0, false, false)
  -- A new eta may be the next one due: those who sleep until then should look again.
  wake(r[@QUEUE])
  return entry, 0
end
