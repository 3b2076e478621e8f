-- Changes of tasks.

-- script: commit
-- Store.commit: apply changes where what they name still holds.
-- ARGV   3 the changes in groups (MessagePack, see lib/change.lua); the rest: results kept apart
-- returns {values, kept apart, whether others are to hear of it (1 or 0)}; a value is nil where nothing was
--         done
-- to be confirmed by replicas: what has ended must not run again
-- include: change, answer, empty_writes

local groups_of_changes = cmsgpack.unpack(ARGV[3])
-- What is cancelled can be forgotten next, and who is asked or held keeps more from coming.
local eases = true
for _, group in ipairs(groups_of_changes) do
  eases = eases and (group[@C_TO] == 'cancelled' or group[@C_TO] == group[@C_STATE])
end
if eases then whatever_memory_is_left() end
local applied = apply_all(groups_of_changes)
if is_any_refused(applied) then write_something(@last()) end
local values, apart = values_of(applied)
return {values, apart, has_dependents and 1 or 0}

-- script: turn
-- Store.turn: commit, then reserve.
-- ARGV   3 worker, 4 limit, 5 queues and handles (MessagePack), 6 the changes in groups (MessagePack);
--        the rest: results that are kept apart
-- returns {numbers from 0 of the changes that were not applied, values, kept apart, whether others are to hear of
--         it (1 or 0), whether something went wrong with the reserve (1 or 0)}, or the error LEASELOST
-- to be confirmed by replicas: what was given must not be given to another
-- include: change, reserve, empty_writes

local node = node_of(ARGV[3])
if not node then return redis.error_reply(LEASE_LOST) end
local applied, refused = apply_all(cmsgpack.unpack(ARGV[6])), {}
for number = 1, #applied do
  if not applied[number] then refused[#refused + 1] = number - 1 end
end
if #refused > 0 then write_something(@last()) end
local wanted = cmsgpack.unpack(ARGV[5])
local given, problem = reserve(ARGV[3], node, wanted[1], tonumber(ARGV[4]), wanted[2])
local values, apart = values_of(given)
return {refused, values, apart, has_dependents and 1 or 0, problem and 1 or 0}
