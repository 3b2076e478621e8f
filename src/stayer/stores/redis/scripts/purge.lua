-- Store.purge: forget finished tasks.
-- ARGV   3 the end must be before this, 4 limit, 5 states, 6 ids or false (both MessagePack)
-- returns the ids that are gone
-- needs: base, lines, tasks, forget

local before, limit = tonumber(ARGV[3]), tonumber(ARGV[4])
local states, ids = cmsgpack.unpack(ARGV[5]), cmsgpack.unpack(ARGV[6])
local gone = {}

local function forget_all(found, wanted)
  fetch_all(found)
  for _, id in ipairs(found) do
    local entry = fetch(id)
    if entry and #gone < limit and (not wanted or (wanted[entry.r[STATE]]
      and entry.r[FINISHED_AT] and entry.r[FINISHED_AT] < before)) then
      forget(entry)
      gone[#gone + 1] = id
    end
  end
end

if ids then
  local wanted = {}
  for _, state in ipairs(states) do wanted[state] = FINISHED[state] end
  forget_all(ids, wanted)
else
  for _, state in ipairs(states) do
    if FINISHED[state] and #gone < limit then
      forget_all(call('ZRANGEBYSCORE', key_finished(state), '-inf', '(' .. ARGV[3], 'LIMIT', 0, limit - #gone))
    end
  end
end
flush()
return gone
