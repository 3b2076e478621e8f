-- Queues: settings, counts, and their end.

-- script: queues
-- Store.queues: settings and counts.
-- ARGV   the rest: names, or nothing for all
-- returns {the queues that each worker listens to (JSON), …}, now, then a queue each: {name, {paused,
--         limit, key_limit, fair, rate, rate_per, tokens, tokens_at, notify, defaults}, {key, its limit, …}, eight
--         counts, its oldest task that could be taken, its retention (JSON)}
-- only reads
-- include: queues

return queue_infos({unpack(ARGV, 3)})

-- script: set_queue
-- Store.set_queue: change a queue's settings, making it if need be.
-- ARGV   3 the name, 4 the settings to be changed (MessagePack: paused (1 or 0), limit, key_limit, key_limits
--        {key = limit}, rate {count, seconds}, fair, notify (hooks, a line each), retention {what = seconds}, defaults {as they were,
--        as they are to be} (JSON, '' for none); false takes one away), 5 how many key limits fit
-- returns as queues.lua, or the errors REFUSED (and how many key limits there would be), CHANGED (its defaults, by another)
-- to be confirmed by replicas: what was paused must not start
-- include: tasks, old_history, queues, empty_writes

last_number() -- before anything is written: the store may be sealed
local name, wanted = ARGV[3], cmsgpack.unpack(ARGV[4])
local key = @queue(name)
if wanted.key_limits then
  local there = call('HLEN', @key_limits(name))
  local number = there
  for each, limit in pairs(wanted.key_limits) do
    local known = call('HEXISTS', @key_limits(name), each)
    number = number + (limit and 1 or 0) - known
  end
  if number > there and number > tonumber(ARGV[5]) then return redis.error_reply('REFUSED ' .. number) end
end
if wanted.defaults and (call('HGET', key, 'defaults') or '') ~= wanted.defaults[1] then
  return redis.error_reply('CHANGED defaults')
end
if wanted.paused or wanted.retention then whatever_memory_is_left() end
call('SADD', @queues(), name)

local function announce(event)
  note_event('', name, event, 0, false, false)
  wake(name)
end

local function set(field, value)
  if value then call('HSET', key, field, value) else call('HDEL', key, field) end
end

local function set_limits()
  for _, field in ipairs({'limit', 'key_limit', 'fair', 'notify'}) do
    if wanted[field] ~= nil then set(field, wanted[field]) end
  end
  for each, limit in pairs(wanted.key_limits or {}) do
    if limit then call('HSET', @key_limits(name), each, limit) else call('HDEL', @key_limits(name), each) end
  end
  if wanted.rate ~= nil then
    -- A new bucket is full; one that is changed, or set again as it was, has no more than it had.
    local rate, tokens = wanted.rate or {}, tonumber(call('HGET', key, 'tokens') or nil)
    if not rate[1] or call('HEXISTS', key, 'rate') == 0 then
      call('HDEL', key, 'tokens', 'tokens_at')
    elseif tokens then
      call('HSET', key, 'tokens', exact(math.min(tokens, rate[1])))
    end
    set('rate', rate[1])
    set('rate_per', rate[2] and exact(rate[2]))
    call(wanted.rate and 'SADD' or 'SREM', @rated(), name)
  end
  local lined = call('HEXISTS', key, 'key_limit') + call('HEXISTS', key, 'fair') + call('HLEN', @key_limits(name))
  set('lined', lined > 0 and 1)
end

local function delete_lines()
  for _, line in ipairs(call('SMEMBERS', @lines(name))) do
    local _, _, its_key = parts_of_line(line)
    call('UNLINK', @line(name, line), @lines_of(name, its_key))
  end
  for _, lane in ipairs(call('SMEMBERS', @lanes(name))) do call('UNLINK', @lane(name, lane)) end
  call('DEL', @lines(name), @lanes(name), @heads(name))
end

-- Everything that can be taken, in its line or lane as the settings now are.
local function line_up()
  local first = 0
  while true do
    local members, ids = call('ZRANGE', @state(name, 'pending'), first, first + @ARGUMENTS_AT_ONCE - 1), {}
    for number, member in ipairs(members) do ids[number] = string.sub(member, 29) end
    fetch_all(ids)
    removals, additions, departures, arrivals = {}, {}, {}, {}
    for number, id in ipairs(ids) do
      local entry = fetch(id)
      if entry then
        entry.was = {}
        move_lanes(entry, false, true)
      else
        note_missing_record(id, name, members[number])
      end
    end
    write_collected()
    entries = {}
    first = first + @ARGUMENTS_AT_ONCE
    if #members < @ARGUMENTS_AT_ONCE then break end
  end
  refresh_touched_lines()
end

local function note_runs(fair)
  call('DEL', @runs(name))
  if not fair then return end
  for _, state in ipairs({'reserved', 'started'}) do
    for _, member in ipairs(call('SMEMBERS', @state(name, state))) do
      local entry = fetch(string.sub(member, 29))
      if entry then
        call('HSET', @runs(name), entry.r[@ID], exact(reserved_at(entry)) .. ' ' .. share_of(entry.r, fair))
      else
        note_missing_record(string.sub(member, 29), name, member)
      end
    end
  end
end

if wanted.paused then
  call('HSET', key, 'paused', wanted.paused)
  announce(wanted.paused == 1 and 'paused' or 'resumed')
end
wanted.paused = nil
for what, seconds in pairs(wanted.retention or {}) do
  set('keep_' .. what, seconds and exact(seconds))
end
if wanted.retention and next(wanted.retention) then announce('retention') end
wanted.retention = nil
if wanted.defaults then
  set('defaults', wanted.defaults[2] ~= '' and wanted.defaults[2])
  announce('defaults')
end
wanted.defaults = nil
if next(wanted) then
  local before = settings_of(name)
  set_limits()
  settings_of_queues[name] = nil
  local after = settings_of(name)
  if before.lined ~= after.lined or before.fair ~= after.fair then
    delete_lines()
    line_up()
    note_runs(after.fair)
  elseif after.lined then
    for _, line in ipairs(call('SMEMBERS', @lines(name))) do refresh_line(name, line) end
  end
  announce('limited')
end
flush()
return queue_infos({name})

-- script: drop_queue
-- Store.drop_queue: delete some of a queue's tasks and, when none is left, the queue.
-- ARGV   3 the name, 4 limit
-- returns how many are left, or the errors UNKNOWN, REFUSED (and how many are running)
-- include: forget, limits, empty_writes

local name = ARGV[3]
if call('SISMEMBER', @queues(), name) == 0 then return redis.error_reply('UNKNOWN queue') end
local running = running_now(name)
if running > 0 then return redis.error_reply('REFUSED ' .. running) end
last_number() -- before anything is written: the store may be sealed
whatever_memory_is_left()
call('HSET', @queue(name), 'paused', 1)
local ids = call('ZRANGE', @ids(name), 0, ARGV[4] - 1)
fetch_all(ids)
for _, id in ipairs(ids) do
  local entry = fetch(id)
  if entry and entry.r[@QUEUE] == name then
    forget(entry)
  else
    call('ZREM', @ids(name), id) -- its record is gone
  end
end
flush()

-- Whatever still stands somewhere has lost its record.
local function clear_away()
  for _, state in ipairs(LISTS) do
    for _, member in ipairs(call('ZRANGE', @state(name, state), 0, -1)) do
      note_missing_record(string.sub(member, 29), name, member)
    end
  end
  for _, lane in ipairs(call('SMEMBERS', @lanes(name))) do call('UNLINK', @lane(name, lane)) end
  for _, line in ipairs(call('SMEMBERS', @lines(name))) do call('UNLINK', @line(name, line)) end
end

local left = call('ZCARD', @ids(name))
if left == 0 then
  clear_away()
  call('DEL', @queue(name), @lanes(name), @lines(name), @heads(name), @running(name),
       @runs(name), @shares(name), @key_limits(name), @spared(name))
  call('SREM', @rated(), name)
  call('SREM', @queues(), name)
end
return left
