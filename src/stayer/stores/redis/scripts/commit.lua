-- Store.commit: apply changes where what they name still holds.
-- ARGV   3 the changes (MessagePack, see changes.py); the rest: results that are kept apart
-- returns {values, kept apart}; a value is nil where nothing was done
-- needs: base, tasks, change

local changes, ids = cmsgpack.unpack(ARGV[3]), {}
for number, change in ipairs(changes) do ids[number] = change[C_ID] end
fetch_all(ids)
local applied = {}
for number, change in ipairs(changes) do applied[number] = apply(change) end
flush()
return {shown(applied)}
