-- Store.ahead: how many tasks of the queue stand before a pending one.
-- ARGV   3 the id
-- returns the number
-- needs: base, record, lines, tasks

local entry = fetch(ARGV[3])
if not entry or entry.r[STATE] ~= 'pending' then return 0 end
local queue, mine = entry.r[QUEUE], ticket(entry)
local score = string.format('%.0f', -(entry.r[PRIORITY] or 0))

-- In a lane all with a lower score stand before it, and of those with the same the lower tickets,
-- which lie in order: found by halving.
local function before(lane)
  local low = call('ZCOUNT', lane, '-inf', '(' .. score)
  local high = call('ZCOUNT', lane, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if call('ZRANGE', lane, middle, middle)[1] < mine then low = middle + 1 else high = middle end
  end
  return low
end

local number = 0
if settings_of(queue).lined then
  for _, line in ipairs(call('SMEMBERS', key_lines(queue))) do number = number + before(key_line(queue, line)) end
else
  for _, lane in ipairs(call('SMEMBERS', key_lanes(queue))) do number = number + before(key_lane(queue, lane)) end
end
return number
