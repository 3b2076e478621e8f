-- Store.get: tasks by id.
-- ARGV   the rest: ids
-- returns {values, kept apart}
-- needs: base, record, lines, tasks

local ids, list = {unpack(ARGV, 3)}, {}
fetch_all(ids)
for number, id in ipairs(ids) do list[number] = fetch(id) end
return {shown(list)}
