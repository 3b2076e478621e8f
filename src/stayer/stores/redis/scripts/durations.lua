-- Store.durations: how long complete tasks of a queue took.
-- ARGV   3 the queue, 4 limit
-- returns {{name or nothing, the words of its command}, seconds, …}, those submitted last first
-- needs: base, record, lines, tasks

local WORDS = 50 -- no more tell what it runs, and the stack is small

local ids, found = {}, {}
for number, place_of in ipairs(call('ZREVRANGE', key_state(ARGV[3], 'complete'), 0, ARGV[4] - 1)) do
  ids[number] = string.sub(place_of, 29)
end
fetch_all(ids)
for _, id in ipairs(ids) do
  local entry = fetch(id)
  local r = entry and entry.r
  if r and r[STARTED_AT] then
    local command = r[COMMAND] or {}
    found[#found + 1] = {r[NAME] or '', unpack(command, 1, math.min(#command, WORDS))}
    found[#found + 1] = exact(r[FINISHED_AT] - r[STARTED_AT])
  end
end
return found
