-- Store.peek: what would be reserved next.
-- ARGV   3 the queue, 4 limit
-- returns {values, kept apart}
-- needs: base, tasks, reserve

local ids, list = ids_of((best_of(ARGV[3], tonumber(ARGV[4]), {true}))), {}
fetch_all(ids)
for number, id in ipairs(ids) do list[number] = fetch(id) end
return {shown(list)}
