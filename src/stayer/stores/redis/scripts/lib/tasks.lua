-- Writing tasks that were changed, with all that follows from the change.
--
-- needs: events, entries, history, indexes

local write_notices -- by lib/notices.lua, for scripts that may have some to write

local function write_values(pairs_of)
  for first = 1, #pairs_of, PART do
    call('MSET', unpack(pairs_of, first, math.min(first + PART - 1, #pairs_of)))
  end
end

local function write_records()
  local pairs_of, count = {}, 0
  for _, entry in ipairs(touched) do
    if not entry.gone then
      local head, own, kind = closed(entry)
      entry.value = head .. own .. kind .. entry.history
      pairs_of[count + 1], pairs_of[count + 2] = key_task(entry.r[ID]), entry.value
      count = count + 2
    end
    if entry.others then write_values(entry.others.pairs_of) end
  end
  write_values(pairs_of)
end

-- Write all that was changed; entries can be read and changed again afterwards.
local function flush()
  if #touched > 0 then
    write_records()
    write_indexes()
    touched = {}
    if write_notices then write_notices() end
  end
  tell_all()
end

-- Parameters and result of an entry that keeps one of them apart.
local function kept_apart(entry)
  local id, flags = entry.r[ID], entry.flags
  return {bit.band(flags, 3) ~= 0 and call('GET', key_parameters(id)),
          bit.band(flags, 12) ~= 0 and call('GET', key_result(id))}
end

-- For the answer: the values of these entries, or of what has followed one, then (index from 0, parameters, result) of those
-- that keep one of them apart.
local function shown(list)
  local values, apart = {}, {}
  for number = 1, #list do
    local entry = list[number]
    local is_entry = type(entry) == 'table'
    values[number] = is_entry and entry.value or entry
    if is_entry and bit.band(entry.flags, 15) ~= 0 then
      local more = kept_apart(entry)
      apart[#apart + 1] = number - 1
      apart[#apart + 1] = more[1]
      apart[#apart + 1] = more[2]
    end
  end
  return values, apart
end
