-- Who is to run after a task.
-- include: entries

-- Whether a task of this store, or shard, that has not ended was to run after this one.
local function is_awaited(upstream)
  local ids = call('SMEMBERS', @dependents(upstream))
  for first = 1, #ids, 100 do
    local some = {unpack(ids, first, math.min(first + 99, #ids))}
    fetch_all(some)
    for _, id in ipairs(some) do
      local other = fetch(id)
      if other and not FINISHED[other.r[@STATE]] then return true end
    end
  end
  return false
end
