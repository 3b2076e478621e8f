-- Store.put_schedule: make or change a schedule.
-- ARGV   3 the name, 4 the queue of its task, 5 the `updated` that was seen ('': whatever it is), 6 what it was in
--        another shard of a cluster (MessagePack: cron, zone, paused, created, last, last_task), or '', the rest:
--        field, value, …; a value of '' is none
-- returns as lib/schedules.lua says; nothing if `updated` is another
-- needs: base, record, lines, tasks, schedules

local name, queue = ARGV[3], ARGV[4]
local key, fields = key_schedule(name), {}
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
call('SADD', key_queues(), queue)
note_event('', queue, 'schedule', 0, false, name)
wake(queue)
flush()
return schedules_of({name})
