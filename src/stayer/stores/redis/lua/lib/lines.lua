-- Who has to wait for whom: limits of keys, lines, shares (see core/ordering/fair_share.py), unique words.
--
-- In most queues what can be taken stands in lanes. Where keys are limited or owners take turns, it
-- stands in lines, one for each lane, share and key; and only the first of each line whose key has
-- room stands in a lane, one for each lane and share. So a full key's line is out of everybody's way,
-- however long it is.
-- include: settings
-- scope

local function handler_of(r)
  if r[@COMMAND] then return 'command ' .. r[@COMMAND][1] end
  if r[@NAME] then return 'name ' .. r[@NAME] end
  return ''
end

-- What a node has for itself stands in lanes of its own (see core/ordering/affinity.py).
local function lane_of(r)
  if not r[@NEAR_NODE] then return handler_of(r) end
  return 'near ' .. #r[@NEAR_NODE] .. ' ' .. r[@NEAR_NODE] .. ' ' .. handler_of(r)
end

local function share_of(r, fair)
  return fair == 'owner' and r[@OWNER] or fair == 'key' and r[@KEY] or ''
end

-- The name of the line in which a task stands: all of its parts can be told from it.
local function line_of(r, fair)
  local lane, share = lane_of(r), share_of(r, fair)
  return #lane .. ' ' .. #share .. ' ' .. lane .. share .. (r[@KEY] or '')
end

local function parts_of_line(line)
  local _, head, first, second = string.find(line, '^(%d+) (%d+) ')
  local lane_end = head + tonumber(first)
  local share_end = lane_end + tonumber(second)
  return string.sub(line, head + 1, lane_end), string.sub(line, lane_end + 1, share_end),
    string.sub(line, share_end + 1)
end

-- The lane in which the firsts of lines stand.
local function lane_of_lines(lane, share) return #lane .. ' ' .. lane .. share end

local function has_place(queue, key)
  if key == '' then return true end
  local limit = call('HGET', @key_limits(queue), key) or settings_of(queue).key_limit
  if not limit then return true end
  return tonumber(call('HGET', @running(queue), key) or 0) < tonumber(limit)
end

-- Let the first task of a line stand in its lane, or nobody, if it is empty or its key is full.
local lanes_changed = {}
local function refresh_line(queue, line)
  local lane, share, key = parts_of_line(line)
  local name = lane_of_lines(lane, share)
  local first = call('ZRANGE', @line(queue, line), 0, 0, 'WITHSCORES')
  local membership = first[1] and 'SADD' or 'SREM'
  call(membership, @lines(queue), line)
  call(membership, @lines_of(queue, key), line)
  local stands = call('HGET', @heads(queue), line)
  local to_stand = first[1] and has_place(queue, key) and first[1]
  if stands and stands ~= to_stand then
    call('ZREM', @lane(queue, name), stands)
    call('HDEL', @heads(queue), line)
  end
  if to_stand then
    call('ZADD', @lane(queue, name), first[2], to_stand)
    call('HSET', @heads(queue), line, to_stand)
    call('SADD', @lanes(queue), name)
  elseif call('EXISTS', @lane(queue, name)) == 0 then
    call('SREM', @lanes(queue), name)
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
      for _, line in ipairs(call('SMEMBERS', @lines_of(queue, key))) do
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
  if age >= @FORGOTTEN then return 0, 0 end
  local left = 0.5 ^ (age / @HALF_LIFE)
  return used * left, runs * left
end

local function count_run(queue, share, ran)
  local used, runs = 0, 0
  local known = call('HGET', @shares(queue), share)
  if known then used, runs = share_now(known) end
  used, runs = used + math.max(0, ran), runs + 1
  call('HSET', @shares(queue), share, exact(used) .. ' ' .. exact(runs) .. ' ' .. NOW)
end

-- A task begins or ends to hold a place; it may have ended some seconds ago.
local function move_places(r, delta, ago)
  local queue, key, id = r[@QUEUE], r[@KEY], r[@ID]
  local settings = settings_of(queue)
  if key then
    if call('HINCRBY', @running(queue), key, delta) <= 0 then call('HDEL', @running(queue), key) end
    if settings.lined then note_touched(keys_touched, queue, key) end
  end
  if not settings.fair then return end
  if delta > 0 then
    call('HSET', @runs(queue), id, NOW .. ' ' .. share_of(r, settings.fair))
    return
  end
  local run = call('HGET', @runs(queue), id)
  if run then
    local _, head, since = string.find(run, '^(%S+) ')
    count_run(queue, string.sub(run, head + 1), now - (ago or 0) - since)
    call('HDEL', @runs(queue), id)
  end
end

-- Until when a task in this state holds its unique word: nil, a moment, or math.huge.
local function unique_end(r, state)
  if state == 'waiting' or state == 'scheduled' or state == 'pending' then return math.huge end
  if state == 'reserved' or state == 'started' then return not r[@UNIQUE_WHILE] and math.huge or nil end
  return state and r[@UNIQUE_FOR] and r[@FINISHED_AT] + r[@UNIQUE_FOR] or nil
end

local function move_unique(r, state)
  local key, ends = @unique(r[@QUEUE], r[@UNIQUE]), unique_end(r, state)
  call('ZREMRANGEBYSCORE', key, '-inf', NOW)
  if ends and ends > now then
    call('ZADD', key, ends == math.huge and '+inf' or exact(ends), r[@ID])
  else
    call('ZREM', key, r[@ID])
  end
  local longest = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
  if longest == 'inf' then
    call('PERSIST', key)
  elseif longest then
    call('PEXPIRE', key, math.ceil((longest - now) * 1000) + 1000)
  end
end
