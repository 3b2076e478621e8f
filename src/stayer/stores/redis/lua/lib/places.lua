-- All tasks of a queue that don't run, in the order in which they were accepted.
-- include: entries

-- Up to so many places from a bound on, as ZRANGEBYLEX has it; and whether these are all.
local function places_from(queue, bound, count)
  local found = {}
  for _, state in ipairs(LISTS) do
    for _, place in ipairs(call('ZRANGEBYLEX', @state(queue, state), bound, '+', 'LIMIT', 0, count)) do
      found[#found + 1] = place
    end
  end
  table.sort(found)
  local are_all = #found < count
  for number = count + 1, #found do found[number] = nil end
  return found, are_all
end
