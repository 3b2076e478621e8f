-- Store.promote: what is due becomes pending, the longest due first.
-- ARGV   3 limit
-- returns {when the next one is due, or a rate allows the next start, or nil, how many came in from outside}
-- needs: base, lines, tasks

local ids = call('ZRANGEBYSCORE', key_due(), '-inf', exact(now), 'LIMIT', 0, ARGV[3])
if #ids > 0 then
  fetch_all(ids)
  local said = saying({now, 'pending', false, 'due'})
  for _, id in ipairs(ids) do
    local entry = fetch(id)
    touch(entry)
    local r = entry.r
    r[STATE], r[UPDATED] = 'pending', now
    local number = note_event(id, r[QUEUE], 'pending', r[ATTEMPT], false, 'due')
    remember(entry, number, r[ATTEMPT], said)
    wake(r[QUEUE])
  end
  flush()
end
local following = call('ZRANGE', key_due(), 0, 0, 'WITHSCORES')
local when = following[2]
for _, queue in ipairs(call('SMEMBERS', key_rated())) do
  local settings = settings_of(queue)
  local level = settings.rate and rate_level(settings) or 1
  local running = call('ZCARD', key_state(queue, 'reserved')) + call('ZCARD', key_state(queue, 'started'))
  local waiting = call('ZCARD', key_state(queue, 'pending')) + call('ZCARD', key_state(queue, 'held'))
  if level + 0.000001 < 1 and waiting > 0 and not settings.paused
    and not (settings.limit and running >= tonumber(settings.limit)) then
    local begin = now + (1 - level) * settings.rate_per / settings.rate
    if not when or begin < tonumber(when) then when = exact(begin) end
  end
end
return {when or false, call('LLEN', key_incoming())}
