-- What happened to a task, read.
-- include: history

-- The numbers of the attempts of which something may be kept.
local function kept_attempts(entry)
  local numbers, last_attempt, id = {}, entry.r[@ATTEMPT], entry.r[@ID]
  local up_to, from = last_attempt, last_attempt + 1
  local tail = call('LINDEX', @history_tail(id), 0)
  if tail then
    local _, first = extent(tail)
    up_to = select(3, extent(call('LINDEX', @history(id), -1))) or 0
    from = math.max(up_to + 1, first - 1)
  end
  for attempt = 1, up_to do numbers[#numbers + 1] = attempt end
  for attempt = from, last_attempt do numbers[#numbers + 1] = attempt end
  return numbers
end

-- What all parts of its history say that are not in its record, the oldest first.
local function older_history(id)
  local parts = call('LRANGE', @history(id), 0, -1)
  for _, part in ipairs(call('LRANGE', @history_tail(id), 0, -1)) do parts[#parts + 1] = part end
  return parts
end

-- When its attempt was reserved: its history says so, unless very much has happened since.
local function reserved_at(entry)
  local since = entry.r[@STARTED_AT] or now
  local parts = older_history(entry.r[@ID])
  parts[#parts + 1] = entry.history
  for _, part in ipairs(parts) do
    local position = 1
    while position < #part do
      local attempt, length = struct.unpack('>I4I4', part, position + 8)
      if length > 0 and attempt == entry.r[@ATTEMPT] then
        local about = cmsgpack.unpack(string.sub(part, position + 16, position + 15 + length))
        if about[2] == 'reserved' then since = about[1] end
      end
      position = position + 16 + length
    end
  end
  return since
end
