-- Store.peek: what would be reserved next.
-- ARGV   3 the queue, 4 limit
-- returns {values, kept apart}
-- needs: base, record, lines, tasks, ends, expire, reserve

local queue, limit = ARGV[3], tonumber(ARGV[4])
local function all_lines()
  local found = {}
  for _, line in ipairs(call('SMEMBERS', key_lines(queue))) do
    found[#found + 1] = {key = key_line(queue, line), taken = 0, at = 1}
  end
  return found
end

local tickets
if settings_of(queue).lined then
  local lines = all_lines()
  tickets = #lines > 0 and merged(lines, limit) or {}
else
  tickets = best_of(queue, limit, {true})
end
local ids, list = ids_of(tickets), {}
fetch_all(ids)
for _, id in ipairs(ids) do
  local entry = fetch(id)
  if entry and not is_late(entry.r) then list[#list + 1] = entry end
end
return {shown(list)}
