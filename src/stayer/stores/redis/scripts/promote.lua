-- Store.promote: what is due becomes pending, the longest due first; what nobody has started in time
-- ends.
-- ARGV   3 how many may become pending, 4 how many may end
-- returns {when time brings the next thing or nil, how many came in from outside, how many notes
--         of ends there are, how many became pending, how many ended}
-- needs: base, lines, tasks, ends, delivery, notices, expire

local late = call('ZRANGEBYSCORE', key_expiring(), '-inf', exact(now), 'LIMIT', 0, ARGV[4])
if #late > 0 then
  fetch_all(late)
  for _, id in ipairs(late) do expire(fetch(id)) end
  flush()
end

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

local following
for _, key in ipairs({key_due(), key_expiring(), key_schedules()}) do
  local score = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if score and score ~= 'inf' and (not following or tonumber(score) < tonumber(following)) then
    following = score
  end
end
for _, queue in ipairs(call('SMEMBERS', key_rated())) do
  local when = rate_allows(queue)
  if when and (not following or when < tonumber(following)) then following = exact(when) end
end
return {following or false, call('LLEN', key_incoming()), open_notes(), #ids, #late}
