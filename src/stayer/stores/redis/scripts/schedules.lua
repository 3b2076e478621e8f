-- Store.schedules, Store.due_schedules.
-- ARGV   3 'all', 'due' or 'named'; 4 (of 'due') limit; the rest (of 'named'): names
-- returns as lib/schedules.lua says
-- needs: base, schedules

if ARGV[3] == 'named' then return schedules_of({unpack(ARGV, 4)}) end
if ARGV[3] == 'all' then return schedules_of(call('ZRANGE', key_schedules(), 0, -1)) end
return schedules_of(call('ZRANGEBYSCORE', key_schedules(), '-inf', exact(now), 'LIMIT', 0, ARGV[4]))
