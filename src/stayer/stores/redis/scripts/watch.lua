-- Store.watch: events after a number. Of a task that is gone only `deleted` is shown.
-- ARGV   3 the number, 4 limit, 5 how many to look at before the answer
-- returns {up to which number was looked at, an array of events (MessagePack), …}
-- needs: base, record, stream

local last = tonumber(call('GET', key_last()) or newest_number(key_events()))
-- A failover that lost the newest events uses their numbers again: whoever is ahead starts from here.
local since = math.min(tonumber(ARGV[3]), last)
local limit, budget = tonumber(ARGV[4]), tonumber(ARGV[5])
local births = {}

-- The number of the event that brought the task which now has this id; nothing if there is none.
local function birth(id)
  if births[id] == nil then
    local value = call('GET', key_task(id))
    births[id] = value and select(2, birth_of(value)) or false
  end
  return births[id]
end

local function is_shown(number, id, event)
  if number <= since then return false end
  if id == '' or event == 'deleted' then return true end
  local first = birth(id)
  return first and number >= first
end

local found, seen, looked = {}, since, 0

local function look(each)
  for place_of, id in ipairs(each[7]) do
    local number = each[1] + place_of - 1
    if #found == limit then return end
    if is_shown(number, id, each[4]) then
      local attempt = type(each[8]) == 'table' and each[8][place_of] or each[8]
      found[#found + 1] = {number, each[2], id, each[3], each[4], attempt, each[5], each[6]}
    end
    looked = looked + 1
    seen = math.max(seen, number)
  end
end

while looked < budget and #found < limit do
  -- What is beyond the last one is not ours.
  local batches = call('XRANGE', key_events(), string.format('%.0f', seen + 1), string.format('%.0f', last), 'COUNT', 20)
  if #batches == 0 then break end
  for _, batch in ipairs(batches) do
    for _, each in ipairs(cmsgpack.unpack(batch[2][2])) do look(each) end
    if #found == limit then break end
    seen = math.max(seen, tonumber((string.match(batch[1], '^%d+')))) -- also past one that says nothing
  end
end
return {string.format('%.0f', seen), cmsgpack.pack(found)}
