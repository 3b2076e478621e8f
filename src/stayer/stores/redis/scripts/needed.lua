-- Cluster: which of these tasks of another shard are needed by one here that has not ended.
-- ARGV   the rest: ids
-- returns their ids
-- needs: base, record, lines, tasks, ends, forget

local found = {}
for number = 3, #ARGV do
  if is_awaited(ARGV[number]) then found[#found + 1] = ARGV[number] end
end
return found
