-- Store.drop_schedule: forget a schedule.
-- ARGV   3 the name
-- returns 1 if there was one, else 0
-- needs: base

local name = ARGV[3]
local newest = call('HGET', key_schedule(name), 'last_task')
if newest then call('SREM', key_newest(), newest) end
call('ZREM', key_schedules(), name)
return call('DEL', key_schedule(name))
