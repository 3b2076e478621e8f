-- Store.upstreams and Store.waits.
-- ARGV   3 up to how many of what it waits for; the rest: ids
-- returns for each {upstreams (a<id> or b<id>), some of what it waits for, how many that is}
-- needs: base

local limit, found = tonumber(ARGV[3]), {}
for number = 4, #ARGV do
  local id = ARGV[number]
  local upstreams, waits, named = call('LRANGE', key_upstreams(id), 0, -1), {}, {}
  local number_of_waits = call('HLEN', key_waits(id))
  for _, each in ipairs(upstreams) do
    if #waits >= limit then break end
    local upstream = string.sub(each, 2)
    if call('HEXISTS', key_waits(id), upstream) == 1 then
      waits[#waits + 1] = upstream
      named[upstream] = true
    end
  end
  -- Since a retry it may have a place in a line that it had not before.
  if #waits < math.min(limit, number_of_waits) then
    for _, upstream in ipairs(call('HKEYS', key_waits(id))) do
      if #waits < limit and not named[upstream] then waits[#waits + 1] = upstream end
    end
  end
  found[number - 3] = {upstreams, waits, number_of_waits}
end
return found
