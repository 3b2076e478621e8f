-- What happened to a task: in its record, and what is older beside it.

local HISTORY_IN_RECORD = 1024

-- What an entry of a history says, apart from number and attempt (`About` in history.py).
local function saying(about)
  local packed = cmsgpack.pack(about)
  return struct.pack('>I4', #packed) .. packed
end

local function moment(number, attempt) return struct.pack('>I8I4', number, attempt) end

-- Older history is in parts: a list of those that hold the first HISTORY_HEAD entries, and one of the others, from
-- which those go that are not among the last HISTORY_TAIL. A part begins with what looks like an entry that says
-- nothing: its number is how many entries came before.

-- How many entries there are with a part, its first attempt and its last; 0 and nothing if there is no such part.
local function extent(part)
  if not part then return 0 end
  local count, position, first, last_attempt = struct.unpack('>I8', part), 17, nil, nil
  while position <= #part do
    local attempt, length = struct.unpack('>I4I4', part, position + 8)
    first, last_attempt, count, position = first or attempt, attempt, count + 1, position + 16 + length
  end
  return count, first, last_attempt
end

-- The numbers of the attempts of which something may be kept.
local function kept_attempts(entry)
  local numbers, last_attempt, id = {}, entry.r[ATTEMPT], entry.r[ID]
  local up_to, from = last_attempt, last_attempt + 1
  local tail = call('LINDEX', key_history_tail(id), 0)
  if tail then
    local _, first = extent(tail)
    up_to = select(3, extent(call('LINDEX', key_history(id), -1))) or 0
    from = math.max(up_to + 1, first - 1)
  end
  for attempt = 1, up_to do numbers[#numbers + 1] = attempt end
  for attempt = from, last_attempt do numbers[#numbers + 1] = attempt end
  return numbers
end

-- Logs and usage go with their attempts. What an attempt has that lies across the border of two parts stays with the
-- head, and goes with the next part after the last that is dropped.
local function drop_middle(id, count)
  local tail = key_history_tail(id)
  local of_head = select(3, extent(call('LINDEX', key_history(id), -1))) or 0
  while true do
    local with_it, first, last_attempt = extent(call('LINDEX', tail, 0))
    if count - with_it < HISTORY_TAIL then return end
    call('LTRIM', tail, 1, -1)
    for attempt = math.max(first - 1, of_head + 1), last_attempt - 1 do
      call('UNLINK', key_log(attempt, id), key_usage(attempt, id))
    end
  end
end

local function move_history(id, moved)
  local head, tail = key_history(id), key_history_tail(id)
  local before = extent(call('LINDEX', tail, -1) or call('LINDEX', head, -1))
  local part = struct.pack('>I8I4I4', before, 0, 0) .. moved
  call('RPUSH', before < HISTORY_HEAD and head or tail, part)
  if before > HISTORY_HEAD + HISTORY_TAIL then drop_middle(id, (extent(part))) end
end

-- What all parts of its history say that are not in its record, the oldest first.
local function older_history(id)
  local parts = call('LRANGE', key_history(id), 0, -1)
  for _, part in ipairs(call('LRANGE', key_history_tail(id), 0, -1)) do parts[#parts + 1] = part end
  return parts
end

-- When its attempt was reserved: its history says so, unless very much has happened since.
local function reserved_at(entry)
  local since = entry.r[STARTED_AT] or now
  local parts = older_history(entry.r[ID])
  parts[#parts + 1] = entry.history
  for _, part in ipairs(parts) do
    local position = 1
    while position < #part do
      local attempt, length = struct.unpack('>I4I4', part, position + 8)
      if length > 0 and attempt == entry.r[ATTEMPT] then
        local about = cmsgpack.unpack(string.sub(part, position + 16, position + 15 + length))
        if about[2] == 'reserved' then since = about[1] end
      end
      position = position + 16 + length
    end
  end
  return since
end

local function remember(entry, number, attempt, said)
  entry.history = entry.history .. moment(number, attempt) .. said
  if #entry.history > HISTORY_IN_RECORD then
    move_history(entry.r[ID], entry.history)
    entry.history = ''
  end
end
