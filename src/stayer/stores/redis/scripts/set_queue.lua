-- Store.set_queue: change a queue's settings, making it if need be.
-- ARGV   3 the name, 4 paused (1, 0 or ''), 5 limit (a number, 'none' or ''), 6 retention
--        (MessagePack: {what, seconds or false, …})
-- returns as queues.lua
-- to be confirmed by replicas: what was paused must not start
-- needs: base, tasks, queues

local name = ARGV[3]
call('SADD', key_queues(), name)

local function tell(event)
  note_event('', name, event, 0, false, false)
  wake(name)
end

if ARGV[4] ~= '' then
  call('HSET', key_queue(name), 'paused', ARGV[4])
  tell(ARGV[4] == '1' and 'paused' or 'resumed')
end
if ARGV[5] == 'none' then call('HDEL', key_queue(name), 'limit') end
if ARGV[5] ~= '' then
  if ARGV[5] ~= 'none' then call('HSET', key_queue(name), 'limit', ARGV[5]) end
  tell('limited')
end
local kept = cmsgpack.unpack(ARGV[6])
for number = 1, #kept, 2 do
  if kept[number + 1] then
    call('HSET', key_queue(name), 'keep_' .. kept[number], exact(kept[number + 1]))
  else
    call('HDEL', key_queue(name), 'keep_' .. kept[number])
  end
end
if #kept > 0 then tell('retention') end
flush()
return queue_infos({name})
