-- Let waiters hear of what has ended: each in one step with what becomes of it.
-- ARGV   3 {id, how many it waits for, {those that have ended}, a group of one change or false} of each waiter
--        (MessagePack, see lib/change.lua)
-- returns how many notes of ends there are now
-- needs: base, record, lines, tasks, alike, ends, unique, delivery, notices, change

whatever_memory_is_left() -- or what was cancelled would be needed for ever by those that wait for it
-- One that waits for another number than it did has heard something else meanwhile: its turn comes again.
local waiters = cmsgpack.unpack(ARGV[3])
local ids = {}
for number, each in ipairs(waiters) do ids[number] = each[1] end
fetch_all(ids)
for _, each in ipairs(waiters) do
  local id, ended, group = each[1], each[3], each[4]
  if call('HLEN', key_waits(id)) == each[2] and (not group or apply_one(group)) then
    in_parts('HDEL', key_waits(id), ended)
    for _, upstream in ipairs(ended) do call('SREM', key_waiters(upstream), id) end
  end
end
flush()
return open_notes()
