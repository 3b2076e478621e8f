-- What happened to a task: in its record, and what is older beside it.
-- include: base
-- scope

-- What an entry of a history says, apart from number and attempt (`About` in history.py).
local function pack_event(about)
  local packed = cmsgpack.pack(about)
  return struct.pack('>I4', #packed) .. packed
end

local function moment(number, attempt) return struct.pack('>I8I4', number, attempt) end

-- Older history is in parts: a list of those that hold the first @HISTORY_HEAD entries, and one of the others, from
-- which those go that are not among the last @HISTORY_TAIL. A part begins with what looks like an entry that says
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

-- Logs and usage go with their attempts. What an attempt has that lies across the border of two parts stays with the
-- head, and goes with the next part after the last that is dropped.
local function drop_middle(id, count)
  local tail = @history_tail(id)
  local of_head = select(3, extent(call('LINDEX', @history(id), -1))) or 0
  while true do
    local with_it, first, last_attempt = extent(call('LINDEX', tail, 0))
    if count - with_it < @HISTORY_TAIL then return end
    call('LTRIM', tail, 1, -1)
    for attempt = math.max(first - 1, of_head + 1), last_attempt - 1 do
      call('UNLINK', @log(attempt, id), @usage(attempt, id))
    end
  end
end

local function move_history(id, old)
  local head, tail = @history(id), @history_tail(id)
  local before = extent(call('LINDEX', tail, -1) or call('LINDEX', head, -1))
  local part = struct.pack('>I8I4I4', before, 0, 0) .. old
  call('RPUSH', before < @HISTORY_HEAD and head or tail, part)
  if before > @HISTORY_HEAD + @HISTORY_TAIL then drop_middle(id, (extent(part))) end
end

local function remember(entry, number, attempt, event_text)
  entry.history = entry.history .. moment(number, attempt) .. event_text
  if #entry.history > @HISTORY_IN_RECORD then
    move_history(entry.r[@ID], entry.history)
    entry.history = ''
  end
end
