-- What there is to pass on: tasks that have ended, and who waits for them. Cleans away what nobody waits for.
-- ARGV   3 how many waiters at most
-- returns {records of the waiters, for each {how many it waits for, an ended one, its state, a or b, …}}
-- needs: base, lines, tasks

local NOTES = 100
local left = tonumber(ARGV[3])
local list, ended = {}, {}
local notes = call('HRANDFIELD', key_outbox(), math.min(left, NOTES), 'WITHVALUES')

local function hear(id, upstream, state)
  local entry = fetch(id)
  local kind = entry and call('HGET', key_waits(id), upstream)
  if not kind then
    call('SREM', key_waiters(upstream), id)
    return
  end
  if not entry.heard then
    entry.heard = {call('HLEN', key_waits(id))}
    list[#list + 1], ended[#ended + 1] = entry, entry.heard
  end
  local heard = entry.heard
  heard[#heard + 1], heard[#heard + 2], heard[#heard + 3] = upstream, state, kind
end

for number = 1, #notes, 2 do
  local upstream = notes[number]
  local entry = fetch(upstream)
  local state = entry and entry.r[STATE] or notes[number + 1]
  local waiters = FINISHED[state] and left > 0 and call('SRANDMEMBER', key_waiters(upstream), left) or {}
  if not FINISHED[state] or (left > 0 and #waiters == 0) then
    call('HDEL', key_outbox(), upstream)
  end
  fetch_all(waiters)
  for _, id in ipairs(waiters) do hear(id, upstream, state) end
  left = left - #waiters
end
local values = {}
for number, entry in ipairs(list) do values[number] = entry.value end
return {values, ended}
