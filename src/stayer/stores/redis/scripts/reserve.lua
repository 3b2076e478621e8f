-- Store.reserve: give a worker up to so many tasks.
-- ARGV   3 worker, 4 limit, 5 queues and handles (MessagePack, see lib/reserve.lua)
-- returns {values, kept apart}, or the error LEASELOST
-- to be confirmed by replicas: what was given must not be given to another
-- needs: base, record, lines, tasks, alike, ends, delivery, notices, expire, reserve

local node = node_of(ARGV[3])
if not node then return redis.error_reply(LEASE_LOST) end
local wanted = cmsgpack.unpack(ARGV[5])
return {shown(reserve(ARGV[3], node, wanted[1], tonumber(ARGV[4]), wanted[2]))}
