-- Store.promote: what is due becomes pending, the longest due first.
-- ARGV   3 limit
-- returns {when the next one is due or nil, how many came in from outside, how many are in the outbox}
-- needs: base, tasks

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
return {following[2] or false, call('LLEN', key_incoming()), call('HLEN', key_outbox())}
