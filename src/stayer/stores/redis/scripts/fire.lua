-- Store.fire: compare, swap, and submit the tasks.
-- ARGV   3 the name; the `updated` 4 and the `last` 5 that were seen; 6 last, 7 next ('' for none, of all
--        three), 8 '1' if it is waiting, else '', 9 the tasks in groups (MessagePack, see lib/submit.lua); the rest: records, and values
--        kept apart
-- returns 1 if it was done, else 0
-- needs: base, record, lines, tasks, unique, accept, schedules

local name = ARGV[3]
local key = key_schedule(name)
local seen = call('HMGET', key, 'updated', 'last', 'last_task')
if not seen[1] or tonumber(seen[1]) ~= tonumber(ARGV[4])
  or tonumber(seen[2] or '') ~= tonumber(ARGV[5]) then return 0 end

local function set(field, value)
  if value == '' then call('HDEL', key, field) else call('HSET', key, field, value) end
end

set('last', ARGV[6])
set('next', ARGV[7])
set('waiting', ARGV[8])
place_schedule(name)
local newest
for _, group_of in ipairs(cmsgpack.unpack(ARGV[9])) do
  for number, id in ipairs(group_of[G_IDS]) do
    local entry, how = accept(group_of, number)
    -- A task that holds the unique word of one is not the schedule's.
    if how == 0 or how == 2 or (how == 1 and entry.r[ID] == id) then newest = id end
  end
end
if newest then
  if seen[3] then call('SREM', key_newest(), seen[3]) end
  call('SADD', key_newest(), newest)
  set('last_task', newest)
end
flush()
return 1
