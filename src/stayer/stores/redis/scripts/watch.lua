-- Store.watch: events after a number. Of a task that is gone only `deleted` is shown.
-- ARGV   3 the number, 4 limit, 5 how many to look at before the answer
-- returns {up to which number was looked at, an array of events (MessagePack), …}
-- needs: base

local since, limit, budget = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local births = {}

-- The number of the event that brought the task which now has this id; nothing if there is none.
local function birth(id)
  if births[id] == nil then
    local value = call('GET', key_task(id))
    births[id] = false
    if value then
      local _, record = cmsgpack.unpack_one(value, 5)
      births[id] = record[SEQ]
    end
  end
  return births[id]
end

local function is_shown(event)
  if event[1] <= since then return false end
  if event[3] == '' or event[5] == 'deleted' then return true end
  local number = birth(event[3])
  return number and event[1] >= number
end

local found, seen, looked = {}, since, 0
local position = string.format('%.0f', since + 1)
while looked < budget and #found < limit do
  local entries = call('XRANGE', key_events(), position, '+', 'COUNT', 20)
  if #entries == 0 then break end
  for _, entry in ipairs(entries) do
    for _, event in ipairs(cmsgpack.unpack(entry[2][2])) do
      if #found < limit then
        looked = looked + 1
        if is_shown(event) then found[#found + 1] = event end
        seen = math.max(seen, event[1])
      end
    end
  end
  position = string.format('%.0f', seen + 1)
end
return {string.format('%.0f', seen), cmsgpack.pack(found)}
