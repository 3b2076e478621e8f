-- Tasks as they are answered.
-- include: entries

-- Parameters and result of an entry that keeps one of them apart.
local function values_kept_apart(entry)
  local id, flags = entry.r[@ID], entry.flags
  return {bit.band(flags, 3) ~= 0 and call('GET', @parameters(id)),
          bit.band(flags, 12) ~= 0 and call('GET', @result(id))}
end

-- For the answer: the values of these entries, or of what has followed one, then (index from 0, parameters, result) of those
-- that keep one of them apart.
local function values_of(list)
  local values, apart = {}, {}
  for number = 1, #list do
    local entry = list[number]
    local is_entry = type(entry) == 'table'
    values[number] = is_entry and entry.value or entry
    if is_entry and bit.band(entry.flags, 15) ~= 0 then
      local more = values_kept_apart(entry)
      apart[#apart + 1] = number - 1
      apart[#apart + 1] = more[1]
      apart[#apart + 1] = more[2]
    end
  end
  return values, apart
end
