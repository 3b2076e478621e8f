-- Store.commit: apply changes where what they name still holds.
-- ARGV   3 the changes in groups (MessagePack, see lib/change.lua); the rest: results kept apart
-- returns {values, kept apart, whether others are to hear of it (1 or 0)}; a value is nil where nothing was
--         done
-- to be confirmed by replicas: what has ended must not run again
-- needs: base, record, lines, tasks, alike, ends, unique, delivery, notices, change

local groups = cmsgpack.unpack(ARGV[3])
-- What is cancelled can be forgotten next, and who is asked or held keeps more from coming.
local eases = true
for _, group in ipairs(groups) do
  eases = eases and (group[C_TO] == 'cancelled' or group[C_TO] == group[C_STATE])
end
if eases then whatever_memory_is_left() end
local values, apart = shown(apply_all(groups))
return {values, apart, told and 1 or 0}
