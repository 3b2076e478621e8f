-- The stream of events. Others may write to it, too, and a script that fails has done the half of what it was to do.
-- include: base

-- The number of the newest event that is ours, for where the last one is not noted any more.
local function newest_number(stream)
  for _, entry in ipairs(call('XREVRANGE', stream, '+', '-', 'COUNT', 20)) do
    local number = entry[2][1] == 'e' and string.match(entry[1], '^(%d+)%-0$')
    if number and #number <= 12 then return tonumber(number) end
  end
  return 0
end

-- What takes no events: something of another type, or a stream with a number beyond ours.
local REFUSALS = {'equal or smaller', 'exhausted', 'WRONGTYPE'}

local function set_aside_stream(why)
  local place, number = @damaged() .. ':events', 1
  while call('EXISTS', place) == 1 do
    number = number + 1
    place = @damaged() .. ':events~' .. string.format('%d', number)
  end
  call('RENAME', @events(), place)
  redis.pcall('HSET', @damaged(), @events(), why)
end

-- A batch of events (MessagePack) under the number of its last one.
local function add_events(number, packed)
  local entry = {'XADD', @events(), 'MINID', '~', string.format('%.0f', math.max(0, number - @EVENTS_KEPT)),
                 string.format('%.0f-0', number), 'e', packed}
  local answer = redis.pcall(unpack(entry))
  if type(answer) ~= 'table' then return end
  for _, words in ipairs(REFUSALS) do
    if string.find(answer.err, words, 1, true) then
      set_aside_stream('has taken no more events: ' .. words)
      break
    end
  end
  call(unpack(entry))
end
