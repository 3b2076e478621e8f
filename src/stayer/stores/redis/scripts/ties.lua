-- Store.upstreams and Store.waits.
-- ARGV   3 up to how many of what it waits for; the rest: ids
-- returns for each {upstreams (a<id> or b<id>), some of what it waits for, how many that is}
-- needs: base

local found = {}
for number = 4, #ARGV do
  local id = ARGV[number]
  local waits = {}
  if tonumber(ARGV[3]) > 0 then
    for _, each in ipairs(call('LRANGE', key_upstreams(id), 0, -1)) do
      local upstream = string.sub(each, 2)
      if #waits < tonumber(ARGV[3]) and call('HEXISTS', key_waits(id), upstream) == 1 then
        waits[#waits + 1] = upstream
      end
    end
  end
  found[number - 3] = {call('LRANGE', key_upstreams(id), 0, -1), waits, call('HLEN', key_waits(id))}
end
return found
