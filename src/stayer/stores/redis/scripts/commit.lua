-- Store.commit: apply changes where what they name still holds.
-- ARGV   3 the changes in groups (MessagePack, see lib/change.lua); the rest: results kept apart
-- returns {values, kept apart}; a value is nil where nothing was done
-- needs: base, lines, tasks, unique, change

return {shown(apply_all(cmsgpack.unpack(ARGV[3])))}
