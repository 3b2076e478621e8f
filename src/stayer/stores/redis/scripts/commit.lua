-- Store.commit: apply changes where what they name still holds.
-- ARGV   3 the changes in groups (MessagePack, see lib/change.lua); the rest: results kept apart
-- returns {values, kept apart, whether others are to hear of it (1 or 0)}; a value is nil where nothing was
--         done
-- to be confirmed by replicas: what has ended must not run again
-- needs: base, record, lines, tasks, alike, ends, unique, delivery, notices, change

local groups_of_changes = cmsgpack.unpack(ARGV[3])
-- What is cancelled can be forgotten next, and who is asked or held keeps more from coming.
local eases = true
for _, group in ipairs(groups_of_changes) do
  eases = eases and (group[C_TO] == 'cancelled' or group[C_TO] == group[C_STATE])
end
if eases then whatever_memory_is_left() end
local applied = apply_all(groups_of_changes)
if is_any_refused(applied) then write_something(key_last()) end
local values, apart = shown(applied)
return {values, apart, told and 1 or 0}
