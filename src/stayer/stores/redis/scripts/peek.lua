-- Store.peek: what would be reserved next.
-- ARGV   3 the queue, 4 limit
-- returns {values, kept apart}
-- needs: base, tasks, expire, reserve

local ids, list = ids_of((best_of(ARGV[3], tonumber(ARGV[4]), {true}))), {}
fetch_all(ids)
for _, id in ipairs(ids) do
  local entry = fetch(id)
  if not is_late(entry.r) then list[#list + 1] = entry end
end
return {shown(list)}
