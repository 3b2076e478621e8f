-- script: beat
-- Store.beat: renew a worker's lease and take its reports.
-- ARGV   3 the worker (MessagePack: id, node, pid, queues as JSON, slots, version, draining, lease,
--        keeps, number, nonce, handles as JSON or '', alone: the registry shard of a cluster has not heard of it), 4 the
--        reports (MessagePack, see workers.py); the rest: checkpoints and pieces of logs
-- returns {now, {id, attempt, orders (MessagePack), …}, {worker, number, lease, …} of suspects,
--        watched (1 or 0), drain (1 or 0), what else is wanted of it (JSON, or nothing)}, or the error LEASELOST
-- include: reports, empty_writes

local who = cmsgpack.unpack(ARGV[3])
local me, lease, number, nonce = who[1], who[8], who[10], who[11]
local key = @worker(me)

local function renew()
  local known = call('HMGET', key, 'number', 'nonce', 'dead', 'lease_end', 'ends_at')
  local ends = now + lease
  if not known[1] then
    if number ~= 1 then return false end
    last_number() -- a store that is sealed takes no workers
    call('HSET', key, 'started_at', exact(now))
    if nonce == 'introduced' then call('HSET', key, 'unproven', 1) end
  else
    local last_number = tonumber(known[1])
    if not known[3] and number == 1 and nonce == 'introduced' then return true end -- as it is already
    if known[3] or number < last_number or (number == last_number and nonce ~= known[2]) then
      return false
    end
    if known[5] and tonumber(known[5]) < now then return false end -- it was told to stop, and did not
    ends = math.max(ends, tonumber(known[4]))
  end
  call('SADD', @workers(), me) -- also later: the list may have been lost
  call('HSET', key, 'node', who[2], 'pid', who[3], 'queues', who[4], 'slots', who[5],
       'version', who[6], 'draining', who[7] and 1 or 0, 'lease', exact(lease),
       'keeps', who[9] and 1 or 0, 'handles', who[12], 'number', number, 'nonce', nonce, 'beat_at', exact(now),
       'lease_end', exact(ends), 'alone', who[13] and 1 or 0)
  if who[9] then
    call('ZREM', @late(), me)
    call('ZREM', @early(), me)
  else
    call('ZADD', @late(), exact(now + lease / 4), me)
    call('ZADD', @early(), exact(now - lease / 4), me)
  end
  return true
end

-- Where new tasks find no place, those that run must not be frozen for want of a lease.
whatever_memory_is_left()
if not renew() then
  return redis.error_reply('LEASELOST the worker was declared lost, or another has its identity')
end

for _, report in ipairs(cmsgpack.unpack(ARGV[4])) do take_report(me, report) end
flush()

local orders = {}
for _, id in ipairs(call('SMEMBERS', @ordered(me))) do
  local r = fetch(id) and fetch(id).r
  if r and r[@ORDERS] and r[@WORKER] == me then
    orders[#orders + 1] = id
    orders[#orders + 1] = r[@ATTEMPT]
    orders[#orders + 1] = cmsgpack.pack(r[@ORDERS])
  else
    call('SREM', @ordered(me), id)
    if not r then note_missing_record(id) end
  end
end

-- What is known of one may be gone: so it has the number 0, and a lease that few are longer than.
local UNKNOWN_LEASE = 3600
local suspects = {}
local function suspect(ids)
  for _, id in ipairs(ids) do
    if id ~= me then
      local known = call('HMGET', @worker(id), 'number', 'lease')
      suspects[#suspects + 1] = id
      suspects[#suspects + 1] = tonumber(known[1]) or 0
      suspects[#suspects + 1] = known[2] or UNKNOWN_LEASE
    end
  end
end
suspect(call('ZRANGEBYSCORE', @late(), '-inf', '(' .. exact(now)))
-- Last heard in a future that a clock set back has taken away.
suspect(call('ZRANGEBYSCORE', @early(), '(' .. exact(now), '+inf'))

local wanted = call('HMGET', key, 'watched_until', 'drain', 'order')
local watched = tonumber(wanted[1] or 0) > now
return {exact(now), orders, suspects, watched and 1 or 0, wanted[2] and 1 or 0, wanted[3]}

-- script: report
-- Store.report: take the reports of a worker between two of its beats.
-- ARGV   3 the worker, 4 the reports (MessagePack, see workers.py); the rest: checkpoints and pieces of logs
-- returns for each report 1 if the worker holds that attempt, else 0
-- include: reports, empty_writes

whatever_memory_is_left()
local taken = {}
for _, report in ipairs(cmsgpack.unpack(ARGV[4])) do taken[#taken + 1] = take_report(ARGV[3], report) and 1 or 0 end
flush()
return taken
