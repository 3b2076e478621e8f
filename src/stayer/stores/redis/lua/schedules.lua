-- Schedules, and the tasks that come of them.
-- include: base

-- Schedules as they are answered: {fields and values of the hash, the name}, …
local function schedules_of(names)
  local found = {}
  for _, name in ipairs(names) do
    local stored = call('HGETALL', @schedule(name))
    if #stored > 0 then
      found[#found + 1] = {stored, name}
    else
      call('ZREM', @schedules(), name) -- what has lost its hash would be due for ever
    end
  end
  return found
end

-- When it is to be looked at: the paused ones last, and never.
local function place_schedule(name)
  local known = call('HMGET', @schedule(name), 'paused', 'next')
  local at = known[1] == '0' and known[2] or 'inf'
  call('ZADD', @schedules(), at, name)
end

-- script: schedules
-- Store.schedules, Store.due_schedules.
-- ARGV   3 'all', 'due' or 'named'; 4 (of 'due') limit; the rest (of 'named'): names
-- returns as schedules_of does

if ARGV[3] == 'named' then return schedules_of({unpack(ARGV, 4)}) end
if ARGV[3] == 'all' then return schedules_of(call('ZRANGE', @schedules(), 0, -1)) end
return schedules_of(call('ZRANGEBYSCORE', @schedules(), '-inf', exact(now), 'LIMIT', 0, ARGV[4]))

-- script: put_schedule
-- Store.put_schedule: make or change a schedule.
-- ARGV   3 the name, 4 the queue of its task, 5 the `updated` that was seen ('': whatever it is), 6 what it was in
--        another shard of a cluster (MessagePack: cron, zone, paused, created, last, last_task), or '', the rest:
--        field, value, …; a value of '' is none
-- returns as schedules_of does; nothing if `updated` is another
-- include: tasks

last_number() -- before anything is written: the store may be sealed
local name, queue = ARGV[3], ARGV[4]
local key, fields = @schedule(name), {}
if ARGV[5] ~= '' and tonumber(call('HGET', key, 'updated') or '') ~= tonumber(ARGV[5]) then return {} end
for number = 7, #ARGV, 2 do
  local field, value = ARGV[number], ARGV[number + 1]
  if value == '' then call('HDEL', key, field) else fields[field] = value end
end
local was = call('HMGET', key, 'cron', 'zone', 'paused', 'created')
if ARGV[6] ~= '' then
  was = cmsgpack.unpack(ARGV[6])
  call('HDEL', key, 'last', 'last_task')
  fields.last, fields.last_task = was[5] or nil, was[6] or nil
end
-- With another expression or zone, or after a pause, it begins to count anew.
if was[1] ~= fields.cron or was[2] ~= fields.zone or (was[3] == '1' and fields.paused == '0') then
  fields.last = exact(now)
end
fields.updated = exact(now)
fields.created = was[4] or exact(now)
for field, value in pairs(fields) do call('HSET', key, field, value) end
place_schedule(name)
call('SADD', @queues(), queue)
note_event('', queue, 'schedule', 0, false, name)
wake(queue)
flush()
return schedules_of({name})

-- script: fire
-- Store.fire: compare, swap, and submit the tasks.
-- ARGV   3 the name; the `updated` 4 and the `last` 5 that were seen; 6 last, 7 next ('' for none, of all
--        three), 8 '1' if it is waiting, else '', 9 the tasks in groups (MessagePack, see lib/submit.lua); the rest: records, and values
--        kept apart
-- returns 1 if it was done, else 0
-- include: accept

local name = ARGV[3]
local key = @schedule(name)
local seen = call('HMGET', key, 'updated', 'last', 'last_task')
if not seen[1] or tonumber(seen[1]) ~= tonumber(ARGV[4])
  or tonumber(seen[2] or '') ~= tonumber(ARGV[5]) then return 0 end
last_number() -- before anything is written: the store may be sealed

local function set(field, value)
  if value == '' then call('HDEL', key, field) else call('HSET', key, field, value) end
end

set('last', ARGV[6])
set('next', ARGV[7])
set('waiting', ARGV[8])
place_schedule(name)
local newest
for _, group_of in ipairs(cmsgpack.unpack(ARGV[9])) do
  for number, id in ipairs(group_of[@G_IDS]) do
    local entry, how = accept(group_of, number)
    -- A task that holds the unique word of one is not the schedule's.
    if how == 0 or how == 2 or (how == 1 and entry.r[@ID] == id) then newest = id end
  end
end
if newest then
  if seen[3] then call('SREM', @newest(), seen[3]) end
  call('SADD', @newest(), newest)
  set('last_task', newest)
end
flush()
return 1

-- script: drop_schedule
-- Store.drop_schedule: forget a schedule.
-- ARGV   3 the name
-- returns 1 if there was one, else 0

local name = ARGV[3]
local newest = call('HGET', @schedule(name), 'last_task')
if newest then call('SREM', @newest(), newest) end
call('ZREM', @schedules(), name)
return call('DEL', @schedule(name))
