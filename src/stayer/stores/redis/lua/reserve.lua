-- What is next, and who gets it.

-- script: reserve
-- Store.reserve: give a worker up to so many tasks.
-- ARGV   3 worker, 4 limit, 5 queues and handles (MessagePack, see lib/reserve.lua)
-- returns {values, kept apart}, or the error LEASELOST
-- to be confirmed by replicas: what was given must not be given to another
-- include: reserve

local node = node_of(ARGV[3])
if not node then return redis.error_reply(LEASE_LOST) end
local wanted = cmsgpack.unpack(ARGV[5])
local given, problem = reserve(ARGV[3], node, wanted[1], tonumber(ARGV[4]), wanted[2])
if problem and #given == 0 then error(problem) end
return {values_of(given)}

-- script: peek
-- Store.peek: what would be reserved next.
-- ARGV   3 the queue, 4 limit
-- returns {values, kept apart}
-- include: choose, answer

local queue, limit = ARGV[3], tonumber(ARGV[4])
local function all_lines()
  local found = {}
  for _, line in ipairs(call('SMEMBERS', @lines(queue))) do
    found[#found + 1] = {key = @line(queue, line), taken = 0, at = 1}
  end
  return found
end

local tickets
if settings_of(queue).lined then
  local lines = all_lines()
  tickets = #lines > 0 and merge(lines, limit) or {}
else
  tickets = best_of(queue, limit, {true})
end
local ids, list = ids_of(tickets), {}
fetch_all(ids)
for _, id in ipairs(ids) do
  local entry = fetch(id)
  if entry and not is_late(entry.r) then list[#list + 1] = entry end
end
return {values_of(list)}

-- script: ahead
-- Store.ahead: how many tasks of the queue stand before a pending one.
-- ARGV   3 the id
-- returns the number
-- only reads
-- include: entries, settings

local entry = fetch(ARGV[3])
if not entry or entry.r[@STATE] ~= 'pending' then return 0 end
local queue, mine = entry.r[@QUEUE], ticket(entry)
local score = string.format('%.0f', -(entry.r[@PRIORITY] or 0))

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
  for _, line in ipairs(call('SMEMBERS', @lines(queue))) do number = number + before(@line(queue, line)) end
else
  for _, lane in ipairs(call('SMEMBERS', @lanes(queue))) do number = number + before(@lane(queue, lane)) end
end
return number
