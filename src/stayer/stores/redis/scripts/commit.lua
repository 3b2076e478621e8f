-- Store.commit: apply changes where what they name still holds.
-- ARGV   3 the changes in groups (MessagePack, see lib/change.lua); the rest: results kept apart
-- returns {values, kept apart, whether others are to hear of it (1 or 0)}; a value is nil where nothing was
--         done
-- to be confirmed by replicas: what has ended must not run again
-- needs: base, record, lines, tasks, alike, ends, unique, delivery, notices, change

local applied = apply_all(cmsgpack.unpack(ARGV[3]))
if is_any_refused(applied) then write_something(key_last()) end
local values, apart = shown(applied)
return {values, apart, told and 1 or 0}
