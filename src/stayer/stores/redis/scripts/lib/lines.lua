-- Who has to wait for whom: limits of keys, lines, shares (see core/ordering/fair_share.py), unique words.
--
-- In most queues what can be taken stands in lanes. Where keys are limited or owners take turns, it
-- stands in lines, one for each lane, share and key; and only the first of each line whose key has
-- room stands in a lane, one for each lane and share. So a full key's line is out of everybody's way,
-- however long it is.
--
-- needs: settings

local HALF_LIFE, USUAL_RUN, FORGOTTEN = 86400, 60, 2592000

local function running_now(queue)
  return call('SCARD', key_state(queue, 'reserved')) + call('SCARD', key_state(queue, 'started'))
end

local function handler_of(r)
  if r[COMMAND] then return 'command ' .. r[COMMAND][1] end
  if r[NAME] then return 'name ' .. r[NAME] end
  return ''
end

-- What a node has for itself stands in lanes of its own (see core/ordering/affinity.py).
local function lane_of(r)
  if not r[NEAR_NODE] then return handler_of(r) end
  return 'near ' .. #r[NEAR_NODE] .. ' ' .. r[NEAR_NODE] .. ' ' .. handler_of(r)
end

local function share_of(r, fair)
  return fair == 'owner' and r[OWNER] or fair == 'key' and r[KEY] or ''
end

-- The name of the line in which a task stands: all of its parts can be told from it.
local function line_of(r, fair)
  local lane, share = lane_of(r), share_of(r, fair)
  return #lane .. ' ' .. #share .. ' ' .. lane .. share .. (r[KEY] or '')
end

local function parts_of_line(line)
  local _, head, first, second = string.find(line, '^(%d+) (%d+) ')
  local lane_end = head + tonumber(first)
  local share_end = lane_end + tonumber(second)
  return string.sub(line, head + 1, lane_end), string.sub(line, lane_end + 1, share_end),
    string.sub(line, share_end + 1)
end

-- The lane in which the firsts of lines stand, and what it is made of.
local function joined_lane(lane, share) return #lane .. ' ' .. lane .. share end
local function parts_of_lane(name)
  local _, head, first = string.find(name, '^(%d+) ')
  local lane_end = head + tonumber(first)
  return string.sub(name, head + 1, lane_end), string.sub(name, lane_end + 1)
end

local function has_place(queue, key)
  if key == '' then return true end
  local limit = call('HGET', key_key_limits(queue), key) or settings_of(queue).key_limit
  if not limit then return true end
  return tonumber(call('HGET', key_running(queue), key) or 0) < tonumber(limit)
end

-- Let the first task of a line stand in its lane, or nobody, if it is empty or its key is full.
local lanes_changed = {}
local function refresh_line(queue, line)
  local lane, share, key = parts_of_line(line)
  local name = joined_lane(lane, share)
  local first = call('ZRANGE', key_line(queue, line), 0, 0, 'WITHSCORES')
  local membership = first[1] and 'SADD' or 'SREM'
  call(membership, key_lines(queue), line)
  call(membership, key_lines_of(queue, key), line)
  local stands = call('HGET', key_heads(queue), line)
  local to_stand = first[1] and has_place(queue, key) and first[1]
  if stands and stands ~= to_stand then
    call('ZREM', key_lane(queue, name), stands)
    call('HDEL', key_heads(queue), line)
  end
  if to_stand then
    call('ZADD', key_lane(queue, name), first[2], to_stand)
    call('HSET', key_heads(queue), line, to_stand)
    call('SADD', key_lanes(queue), name)
  elseif call('EXISTS', key_lane(queue, name)) == 0 then
    call('SREM', key_lanes(queue), name)
  end
  lanes_changed[name] = true
end

local lines_touched, keys_touched = {}, {} -- queue → line or key → true
local function note_touched(where, queue, name)
  if not where[queue] then where[queue] = {} end
  where[queue][name] = true
end

local function refresh_touched_lines()
  for queue, keys in pairs(keys_touched) do
    for key in pairs(keys) do
      for _, line in ipairs(call('SMEMBERS', key_lines_of(queue, key))) do
        note_touched(lines_touched, queue, line)
      end
    end
  end
  for queue, lines in pairs(lines_touched) do
    for line in pairs(lines) do refresh_line(queue, line) end
  end
  lines_touched, keys_touched = {}, {}
end

local function share_now(text)
  local used, runs, at = string.match(text, '^(%S+) (%S+) (%S+)$')
  local age = math.max(0, now - at)
  if age >= FORGOTTEN then return 0, 0 end
  local left = 0.5 ^ (age / HALF_LIFE)
  return used * left, runs * left
end

local function count_run(queue, share, ran)
  local used, runs = 0, 0
  local known = call('HGET', key_shares(queue), share)
  if known then used, runs = share_now(known) end
  used, runs = used + math.max(0, ran), runs + 1
  call('HSET', key_shares(queue), share, exact(used) .. ' ' .. exact(runs) .. ' ' .. NOW)
end

-- What each share has used, and what a usual run is.
local function turns_of(queue)
  local used, all_used, all_runs = {}, 0, 0
  local known = call('HGETALL', key_shares(queue))
  for number = 1, #known, 2 do
    local seconds, runs = share_now(known[number + 1])
    used[known[number]] = seconds
    all_used, all_runs = all_used + seconds, all_runs + runs
    if runs == 0 then call('HDEL', key_shares(queue), known[number]) end
  end
  local usual = USUAL_RUN
  if all_runs > 0 and all_used > 0 then usual = all_used / all_runs end
  for _, run in ipairs(call('HVALS', key_runs(queue))) do
    local _, head, since = string.find(run, '^(%S+) ')
    local share = string.sub(run, head + 1)
    used[share] = (used[share] or 0) + math.max(now - since, usual)
  end
  return {used = used, usual = usual}
end

-- A task begins or ends to hold a place; it may have ended some seconds ago.
local function move_places(r, delta, ago)
  local queue, key, id = r[QUEUE], r[KEY], r[ID]
  local settings = settings_of(queue)
  if key then
    if call('HINCRBY', key_running(queue), key, delta) <= 0 then call('HDEL', key_running(queue), key) end
    if settings.lined then note_touched(keys_touched, queue, key) end
  end
  if not settings.fair then return end
  if delta > 0 then
    call('HSET', key_runs(queue), id, NOW .. ' ' .. share_of(r, settings.fair))
    return
  end
  local run = call('HGET', key_runs(queue), id)
  if run then
    local _, head, since = string.find(run, '^(%S+) ')
    count_run(queue, string.sub(run, head + 1), now - (ago or 0) - since)
    call('HDEL', key_runs(queue), id)
  end
end

-- Until when a task in this state holds its unique word: nil, a moment, or math.huge.
local function unique_end(r, state)
  if state == 'waiting' or state == 'scheduled' or state == 'pending' then return math.huge end
  if state == 'reserved' or state == 'started' then return not r[UNIQUE_WHILE] and math.huge or nil end
  return state and r[UNIQUE_FOR] and r[FINISHED_AT] + r[UNIQUE_FOR] or nil
end

local function move_unique(r, state)
  local key, ends = key_unique(r[QUEUE], r[UNIQUE]), unique_end(r, state)
  call('ZREMRANGEBYSCORE', key, '-inf', NOW)
  if ends and ends > now then
    call('ZADD', key, ends == math.huge and '+inf' or exact(ends), r[ID])
  else
    call('ZREM', key, r[ID])
  end
  local longest = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
  if longest == 'inf' then
    call('PERSIST', key)
  elseif longest then
    call('PEXPIRE', key, math.ceil((longest - now) * 1000) + 1000)
  end
end

-- How many tasks a queue's rate lets begin now: as `Bucket.level` in core/ordering/rate_limit.py.
local function rate_level(settings)
  local count = tonumber(settings.rate)
  if not settings.tokens_at or settings.tokens_at - now > tonumber(settings.rate_per) then return count end
  local grown = math.max(0, now - settings.tokens_at) * count / settings.rate_per
  return math.min(count, settings.tokens + grown)
end
local ALMOST = 0.000001

-- When a queue's rate lets the next task begin; nothing if that is not what its tasks wait for.
local function rate_allows(queue)
  local settings = settings_of(queue)
  local level = settings.rate and rate_level(settings) or 1
  if level + ALMOST >= 1 or settings.paused then return nil end
  if call('ZCARD', key_state(queue, 'pending')) + call('ZCARD', key_state(queue, 'held')) == 0 then return nil end
  if settings.limit and running_now(queue) >= tonumber(settings.limit) then return nil end
  return now + (1 - level) * settings.rate_per / settings.rate
end
