-- Store.durations: how long complete tasks of a queue took.
-- ARGV   3 the queue, 4 limit
-- returns {kind, seconds, …}, those submitted last first
-- needs: base, lines, tasks

local ids, found = {}, {}
for number, place_of in ipairs(call('ZREVRANGE', key_state(ARGV[3], 'complete'), 0, ARGV[4] - 1)) do
  ids[number] = string.sub(place_of, 29)
end
fetch_all(ids)
for _, id in ipairs(ids) do
  local entry = fetch(id)
  local r = entry and entry.r
  if r and r[STARTED_AT] then
    found[#found + 1] = r[NAME] or (r[COMMAND] and r[COMMAND][1]) or ''
    found[#found + 1] = exact(r[FINISHED_AT] - r[STARTED_AT])
  end
end
return found
