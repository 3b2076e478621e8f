-- Workers, and what they hold. A beat is in beat.lua.
-- include: answer, events

-- The dead that hold something are kept until they hold nothing.

local function mark_dead(worker)
  call('HSET', @worker(worker), 'dead', 1)
  call('SADD', @dead(), worker)
  call('ZREM', @late(), worker)
  call('ZREM', @early(), worker)
end

-- The workers that were declared lost, the newest first, for people to see: as JSON, with numbers as text, which keeps all digits.

local function lost_workers()
  local is_list, kept = pcall(cjson.decode, call('HGET', @meta(), 'lost') or '[]')
  return is_list and type(kept) == 'table' and kept or {}
end

local function keep_lost(kept) call('HSET', @meta(), 'lost', cjson.encode(kept)) end

local function add_lost_tasks(entry, ids)
  local tasks = entry.tasks or {}
  local known = {}
  for _, id in ipairs(tasks) do known[id] = true end
  for _, id in ipairs(ids) do
    if not known[id] and #tasks < @LOST_TASKS then tasks[#tasks + 1] = id end
  end
  entry.running = tostring(math.max(#ids, #tasks, tonumber(entry.running or 0)))
  if #tasks > 0 then entry.tasks = tasks end -- an empty one would become an object
end

local function note_lost(worker, by)
  note_event('', '', '@WORKER_LOST', 0, worker, false)
  local known = call('HMGET', @worker(worker), 'node', 'pid', 'version', 'started_at', 'beat_at')
  local entry = {
    id = worker, node = known[1] or '', pid = known[2] or '0', version = known[3] or '',
    started_at = known[4] or '0', beat_at = known[5] or '0', lost_at = exact(now), by = by,
  }
  add_lost_tasks(entry, call('SMEMBERS', @held(worker)))
  local listed = {entry}
  for _, each in ipairs(lost_workers()) do
    if #listed < @LOST_WORKERS and type(each) == 'table' and each.id ~= worker then listed[#listed + 1] = each end
  end
  keep_lost(listed)
end

local function forget_idle_dead()
  for _, worker in ipairs(call('SMEMBERS', @dead())) do
    if call('SCARD', @held(worker)) == 0 then
      call('DEL', @worker(worker), @ordered(worker))
      call('SREM', @workers(), worker)
      call('SREM', @dead(), worker)
    end
  end
end

local function held_by(worker)
  local ids = call('SMEMBERS', @held(worker))
  fetch_all(ids)
  local held = {}
  for _, id in ipairs(ids) do
    local entry = fetch(id)
    if entry and RUNNING[entry.r[@STATE]] and entry.r[@WORKER] == worker then
      held[#held + 1] = entry
    else
      call('SREM', @held(worker), id)
      if not entry then note_missing_record(id) end
    end
  end
  return held
end

-- script: workers
-- Store.workers: all that are not declared lost.
-- returns {now, {fields and values of the hash, id, how many tasks it holds}, …}
-- only reads

local found = {exact(now)}
for _, worker in ipairs(call('SMEMBERS', @workers())) do
  if call('SISMEMBER', @dead(), worker) == 0 then
    local fields = call('HGETALL', @worker(worker))
    if #fields > 0 then found[#found + 1] = {fields, worker, call('SCARD', @held(worker))} end
  end
end
return found

-- script: lost_workers
-- Store.lost_workers: those that were declared lost.
-- returns JSON, or nothing
-- only reads

return call('HGET', @meta(), 'lost')

-- script: note_lost_tasks
-- Cluster: what a lost worker held in another shard.
-- ARGV   3 the worker; the rest: ids of tasks
-- returns 1 if it is among those that were declared lost, else 0

local kept = lost_workers()
for _, entry in ipairs(kept) do
  if type(entry) == 'table' and entry.id == ARGV[3] then
    local ids = {}
    for number = 4, #ARGV do ids[#ids + 1] = ARGV[number] end
    add_lost_tasks(entry, ids)
    keep_lost(kept)
    return 1
  end
end
return 0

-- script: holdings
-- Store.holdings: what a worker holds.
-- ARGV   3 the worker
-- returns {values, kept apart}

return {values_of(held_by(ARGV[3]))}

-- script: attend
-- Store.attend: let the beats of these workers say that somebody watches.
-- ARGV   3 for how many seconds; the rest: workers
-- returns how many there are

local known_workers = 0
for number = 4, #ARGV do
  local key = @worker(ARGV[number])
  local known = call('HMGET', key, 'number', 'watched_until')
  if known[1] then
    known_workers = known_workers + 1
    local already = tonumber(known[2] or 0)
    call('HSET', key, 'watched_until', exact(math.max(already, now + ARGV[3])))
    if already < now then
      publish(@orders(ARGV[number]), call('HINCRBY', key, 'wakes', 1))
    end
  end
end
return known_workers

-- script: drain_worker
-- Store.drain_worker: let the beats of a worker say that it is to take no more.
-- ARGV   3 the worker
-- returns {now, {fields and values of the hash, id, how many tasks it holds}}, or the error UNKNOWN

local worker = ARGV[3]
local key = @worker(worker)
local known = call('HMGET', key, 'number', 'dead', 'drain')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN worker') end
if not known[3] then
  call('HSET', key, 'drain', 1)
  publish(@orders(worker), call('HINCRBY', key, 'wakes', 1))
end
return {exact(now), {call('HGETALL', key), worker, call('SCARD', @held(worker))}}

-- script: order_worker
-- Store.order_worker: let the beats of a worker bring an order, unless it has been given another one meanwhile.
-- ARGV   3 the worker, 4 the order (JSON), 5 its number, 6 1 if it is to stop, 7 when its beats are refused, or ''
-- returns {now, {fields and values of the hash, id, how many tasks it holds}}, {now} if nothing was done, or the error UNKNOWN

local worker = ARGV[3]
local key = @worker(worker)
local known = call('HMGET', key, 'number', 'dead', 'order_number')
if not known[1] or known[2] then return redis.error_reply('UNKNOWN worker') end
if tonumber(known[3] or 0) + 1 ~= tonumber(ARGV[5]) then return {exact(now)} end
call('HSET', key, 'order', ARGV[4], 'order_number', ARGV[5])
if ARGV[6] == '1' then call('HSET', key, 'drain', 1) end
if ARGV[7] ~= '' then call('HSET', key, 'ends_at', ARGV[7]) end
publish(@orders(worker), call('HINCRBY', key, 'wakes', 1))
return {exact(now), {call('HGETALL', key), worker, call('SCARD', @held(worker))}}

-- script: drop_worker
-- Store.drop_worker: declare one lost on somebody's word.
-- ARGV   3 the worker, 4 its last number, or '' if it does not speak for itself, 5 who declares it lost, or '' if it takes its leave
-- returns {values, kept apart} of what it held, or the errors UNKNOWN, LEASELOST, REFUSED (and the
--         seconds that are left of its lease)
-- to be confirmed by replicas: what was taken from the dead must not be theirs again

local known = call('HMGET', @worker(ARGV[3]), 'number', 'lease_end', 'dead')
if not known[1] then return redis.error_reply('UNKNOWN worker') end
if ARGV[4] ~= '' and ARGV[4] ~= known[1] then
  return redis.error_reply('LEASELOST its identity is used elsewhere')
end
if ARGV[4] == '' and not known[3] and tonumber(known[2]) >= now then
  return redis.error_reply('REFUSED ' .. exact(tonumber(known[2]) - now))
end
local held = held_by(ARGV[3])
mark_dead(ARGV[3])
if ARGV[5] ~= '' and not known[3] then note_lost(ARGV[3], ARGV[5]) end
forget_idle_dead()
tell_all()
return {values_of(held)}

-- script: declare_lost
-- Store.declare_lost: mark silent workers as dead, and show what all the dead still hold.
-- ARGV   3 the judge, or '' if it is no worker, 4 the workers with their last numbers (MessagePack: {worker, number, …}),
--        5 the judge in words
-- returns {values, kept apart}, or the error LEASELOST
-- to be confirmed by replicas: what was taken from the dead must not be theirs again

if ARGV[3] ~= '' then
  local judge = call('HMGET', @worker(ARGV[3]), 'number', 'dead')
  if not judge[1] or judge[2] then
    return redis.error_reply('LEASELOST the judge is not registered, or was declared lost')
  end
end
local silent = cmsgpack.unpack(ARGV[4])
for number = 1, #silent, 2 do
  local known = call('HMGET', @worker(silent[number]), 'number', 'dead')
  if tonumber(known[1] or 0) == silent[number + 1] then
    mark_dead(silent[number])
    if not known[2] then note_lost(silent[number], ARGV[5]) end
  end
end
forget_idle_dead()
tell_all()
local lost = {}
for _, worker in ipairs(call('SMEMBERS', @dead())) do
  for _, entry in ipairs(held_by(worker)) do lost[#lost + 1] = entry end
end
return {values_of(lost)}

-- script: declare_lost_here
-- Cluster: the registry shard knows the worker no more, or as dead: so it is dead in this shard. One that has beaten here without
-- the registry shard may believe in a lease of which the judge has seen nothing: it is refused from now on, and what it
-- holds is its own until that lease is over for certain.
-- ARGV   3 the worker, 4 1 if a lease has passed since it was first refused here
-- returns {values, kept apart} of what it still holds, or {0, 0, its lease}: come again when that has passed
-- to be confirmed by replicas: what was taken from the dead must not be theirs again

local key = @worker(ARGV[3])
local known = call('HMGET', key, 'alone', 'lease')
if known[1] == '1' and ARGV[4] ~= '1' and call('SCARD', @held(ARGV[3])) > 0 then
  call('HSET', key, 'dead', 1)
  return {0, 0, known[2]}
end
mark_dead(ARGV[3])
forget_idle_dead()
return {values_of(held_by(ARGV[3]))}
