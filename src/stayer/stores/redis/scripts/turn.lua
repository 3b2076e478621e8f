-- Store.turn: commit, then reserve.
-- ARGV   3 worker, 4 limit, 5 queues and handles (MessagePack), 6 the changes in groups (MessagePack);
--        the rest: results that are kept apart
-- returns {numbers from 0 of the changes that were not applied, values, kept apart, whether others are to hear of
--         it (1 or 0)}, or the error LEASELOST
-- to be confirmed by replicas: what was given must not be given to another
-- needs: base, record, lines, tasks, alike, ends, unique, delivery, notices, change, expire, reserve

local node = node_of(ARGV[3])
if not node then return redis.error_reply(LEASE_LOST) end
local applied, refused = apply_all(cmsgpack.unpack(ARGV[6])), {}
for number = 1, #applied do
  if not applied[number] then refused[#refused + 1] = number - 1 end
end
if #refused > 0 then write_something(key_last()) end
local wanted = cmsgpack.unpack(ARGV[5])
local values, apart = shown(reserve(ARGV[3], node, wanted[1], tonumber(ARGV[4]), wanted[2]))
return {refused, values, apart, told and 1 or 0}
