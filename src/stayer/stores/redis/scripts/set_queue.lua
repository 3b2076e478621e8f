-- Store.set_queue: change a queue's settings, making it if need be.
-- ARGV   3 the name, 4 the settings to be changed (MessagePack: paused (1 or 0), limit, key_limit, key_limits
--        {key = limit}, rate {count, seconds}, fair, notify (hooks, a line each), retention {what = seconds}; false takes one away), 5 how many key limits fit
-- returns as queues.lua, or the error REFUSED (and how many key limits there would be)
-- to be confirmed by replicas: what was paused must not start
-- needs: base, record, lines, tasks, queues

local name, wanted = ARGV[3], cmsgpack.unpack(ARGV[4])
local key = key_queue(name)
if wanted.key_limits then
  local there = call('HLEN', key_key_limits(name))
  local number = there
  for each, limit in pairs(wanted.key_limits) do
    local known = call('HEXISTS', key_key_limits(name), each)
    number = number + (limit and 1 or 0) - known
  end
  if number > there and number > tonumber(ARGV[5]) then return redis.error_reply('REFUSED ' .. number) end
end
if wanted.paused or wanted.retention then whatever_memory_is_left() end
call('SADD', key_queues(), name)

local function tell(event)
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
    if limit then call('HSET', key_key_limits(name), each, limit) else call('HDEL', key_key_limits(name), each) end
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
    call(wanted.rate and 'SADD' or 'SREM', key_rated(), name)
  end
  local lined = call('HEXISTS', key, 'key_limit') + call('HEXISTS', key, 'fair') + call('HLEN', key_key_limits(name))
  set('lined', lined > 0 and 1)
end

local function delete_lines()
  for _, line in ipairs(call('SMEMBERS', key_lines(name))) do
    local _, _, its_key = parts_of_line(line)
    call('UNLINK', key_line(name, line), key_lines_of(name, its_key))
  end
  for _, lane in ipairs(call('SMEMBERS', key_lanes(name))) do call('UNLINK', key_lane(name, lane)) end
  call('DEL', key_lines(name), key_lanes(name), key_heads(name))
end

-- Everything that can be taken, in its line or lane as the settings now are.
local function line_up()
  local first = 0
  while true do
    local members, ids = call('ZRANGE', key_state(name, 'pending'), first, first + PART - 1), {}
    for number, member in ipairs(members) do ids[number] = string.sub(member, 29) end
    fetch_all(ids)
    removals, additions, departures, arrivals = {}, {}, {}, {}
    for number, id in ipairs(ids) do
      local entry = fetch(id)
      if entry then
        entry.was = {}
        move_lanes(entry, false, true)
      else
        note_stray(id, name, members[number])
      end
    end
    write_collected()
    entries = {}
    first = first + PART
    if #members < PART then break end
  end
  refresh_touched_lines()
end

local function note_runs(fair)
  call('DEL', key_runs(name))
  if not fair then return end
  for _, state in ipairs({'reserved', 'started'}) do
    for _, member in ipairs(call('SMEMBERS', key_state(name, state))) do
      local entry = fetch(string.sub(member, 29))
      if entry then
        call('HSET', key_runs(name), entry.r[ID], exact(reserved_at(entry)) .. ' ' .. share_of(entry.r, fair))
      else
        note_stray(string.sub(member, 29), name, member)
      end
    end
  end
end

if wanted.paused then
  call('HSET', key, 'paused', wanted.paused)
  tell(wanted.paused == 1 and 'paused' or 'resumed')
end
wanted.paused = nil
for what, seconds in pairs(wanted.retention or {}) do
  set('keep_' .. what, seconds and exact(seconds))
end
if wanted.retention and next(wanted.retention) then tell('retention') end
wanted.retention = nil
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
    for _, line in ipairs(call('SMEMBERS', key_lines(name))) do refresh_line(name, line) end
  end
  tell('limited')
end
flush()
return queue_infos({name})
