-- script: promote
-- Store.promote: what is due becomes pending, the longest due first; what nobody has started in time
-- ends.
-- ARGV   3 how many may become pending, 4 how many may end
-- returns {when time brings the next thing or nil, how many came in from outside, how many notes
--         of ends there are, how many became pending, how many ended, how many strays missing_records.lua has to see to}
-- include: expire, limits

-- What stands here for nothing.
local function drop_stale(key, id, entry)
  call('ZREM', key, id)
  if not entry then note_missing_record(id) end
end

local late = call('ZRANGEBYSCORE', @expiring(), '-inf', exact(now), 'LIMIT', 0, ARGV[4])
if #late > 0 then
  fetch_all(late)
  for _, id in ipairs(late) do
    local entry = fetch(id)
    if entry and QUEUED[entry.r[@STATE]] and is_late(entry.r) then
      expire(entry)
    else
      drop_stale(@expiring(), id, entry)
    end
  end
  flush()
end

local ids = call('ZRANGEBYSCORE', @due(), '-inf', exact(now), 'LIMIT', 0, ARGV[3])
if #ids > 0 then
  fetch_all(ids)
  local event_text = pack_event({now, 'pending', false, 'due'})
  for _, id in ipairs(ids) do
    local entry = fetch(id)
    local r = entry and entry.r
    if r and r[@STATE] == 'scheduled' then
      touch(entry)
      r[@STATE], r[@UPDATED] = 'pending', now
      local number = note_event(id, r[@QUEUE], 'pending', r[@ATTEMPT], false, 'due')
      remember(entry, number, r[@ATTEMPT], event_text)
      wake(r[@QUEUE])
    else
      drop_stale(@due(), id, entry)
    end
  end
  flush()
end

-- Until when each node has somebody who takes tasks.
local function nodes_until()
  local found = {}
  for _, worker in ipairs(call('SMEMBERS', @workers())) do
    local known = call('HMGET', @worker(worker), 'node', 'lease_end', 'dead', 'draining', 'drain')
    local node, ends = known[1], tonumber(known[2] or 0)
    if node and not known[3] and known[4] ~= '1' and known[5] ~= '1' then
      found[node] = math.max(found[node] or 0, ends)
    end
  end
  return found
end

local function open_to_all(key, node, ids)
  fetch_all(ids)
  for _, id in ipairs(ids) do
    local entry = fetch(id)
    if entry and entry.r[@STATE] == 'pending' and entry.r[@NEAR_NODE] == node then
      touch(entry)
      entry.r[@NEAR_NODE], entry.r[@NEAR_UNTIL] = nil, nil
      wake(entry.r[@QUEUE])
    else
      drop_stale(key, id, entry)
    end
  end
  flush()
end

-- What has waited for its node for long enough, or waits for one that can't take it, is for any node; when that
-- is so next.
local function look_at_nodes()
  local nodes, soonest = call('SMEMBERS', @near_nodes()), nil
  if #nodes == 0 then return nil end
  local able = nodes_until()
  for _, node in ipairs(nodes) do
    local key, ends = @near(node), able[node] or 0
    local late_by = ends > now and exact(now) or '+inf'
    local over = call('ZRANGEBYSCORE', key, '-inf', late_by, 'LIMIT', 0, ARGV[3])
    if #over > 0 then open_to_all(key, node, over) end
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    if first then
      local when = math.min(tonumber(first), ends)
      soonest = math.min(soonest or when, when)
    else
      call('SREM', @near_nodes(), node)
    end
  end
  return soonest
end

-- When a queue's rate lets the next task begin; nothing if that is not what its tasks wait for.
local function rate_allows(queue)
  local settings = settings_of(queue)
  local level = settings.rate and rate_level(settings) or 1
  if level + ALMOST >= 1 or settings.paused then return nil end
  if call('ZCARD', @state(queue, 'pending')) + call('ZCARD', @state(queue, 'held')) == 0 then return nil end
  if settings.limit and running_now(queue) >= tonumber(settings.limit) then return nil end
  return now + (1 - level) * settings.rate_per / settings.rate
end

local following = look_at_nodes()
following = following and exact(following)
for _, key in ipairs({@due(), @expiring(), @schedules()}) do
  local score = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if score and score ~= 'inf' and (not following or tonumber(score) < tonumber(following)) then
    following = score
  end
end
for _, queue in ipairs(call('SMEMBERS', @rated())) do
  local when = rate_allows(queue)
  if when and (not following or when < tonumber(following)) then following = exact(when) end
end
return {following or false, call('LLEN', @incoming()), open_notes(), #ids, #late, call('SCARD', @strays())}
