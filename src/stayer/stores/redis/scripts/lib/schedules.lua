-- Schedules as they are answered: {fields and values of the hash, the name}, …

local function schedules_of(names)
  local found = {}
  for _, name in ipairs(names) do
    local stored = call('HGETALL', key_schedule(name))
    if #stored > 0 then
      found[#found + 1] = {stored, name}
    else
      call('ZREM', key_schedules(), name) -- what has lost its hash would be due for ever
    end
  end
  return found
end

-- When it is to be looked at: the paused ones last, and never.
local function place_schedule(name)
  local known = call('HMGET', key_schedule(name), 'paused', 'next')
  local at = known[1] == '0' and known[2] or 'inf'
  call('ZADD', key_schedules(), at, name)
end
