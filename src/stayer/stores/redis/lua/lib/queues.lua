-- What is known of queues.
-- include: base

local STATES = {'waiting', 'scheduled', 'pending', 'reserved', 'started', 'complete', 'failed', 'cancelled'}

local function count(queue, state)
  local is_running = state == 'reserved' or state == 'started'
  local number = call(is_running and 'SCARD' or 'ZCARD', @state(queue, state))
  if state == 'pending' then number = number + call('ZCARD', @state(queue, 'held')) end
  return number
end

local KEPT = {'complete', 'failed', 'cancelled', 'log', 'result'}

-- For how long things are kept, by what they are.
local function retention(queue)
  local names, keep_for = {}, {}
  for number, what in ipairs(KEPT) do names[number] = 'keep_' .. what end
  for number, seconds in ipairs(call('HMGET', @queue(queue), unpack(names))) do
    if seconds then keep_for[KEPT[number]] = tonumber(seconds) end
  end
  return keep_for
end

local function queue_info(name)
  local settings = call('HMGET', @queue(name), 'paused', 'limit', 'key_limit', 'fair', 'rate', 'rate_per',
                        'tokens', 'tokens_at', 'notify', 'defaults')
  local info = {name, settings, call('HGETALL', @key_limits(name))}
  for number, state in ipairs(STATES) do info[number + 3] = count(name, state) end
  local oldest = call('ZRANGE', @state(name, 'pending'), 0, 0)[1]
  local id = oldest and string.sub(oldest, 29)
  info[12] = id and call('GET', @task(id)) or false
  info[13] = cjson.encode(retention(name))
  return info
end

local function queue_infos(names)
  if #names == 0 then names = call('SMEMBERS', @queues()) end
  local listened = {}
  for _, worker in ipairs(call('SMEMBERS', @workers())) do
    local known = call('HMGET', @worker(worker), 'queues', 'dead')
    if known[1] and not known[2] then listened[#listened + 1] = known[1] end
  end
  local infos = {listened, exact(now)}
  for _, name in ipairs(names) do
    if call('SISMEMBER', @queues(), name) == 1 then infos[#infos + 1] = queue_info(name) end
  end
  return infos
end
