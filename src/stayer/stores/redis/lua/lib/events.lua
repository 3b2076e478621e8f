-- What happened, for those who watch, and who is to be woken by it: noted while a script works, rows at its end.
-- include: stream, sealed
-- scope

local groups = {}
local woken = {} -- queue → true
local ordered = {} -- worker → true

local last
local function last_number()
  if not last then
    local noted = call('GET', @last())
    last = tonumber(noted or nil)
    if not last then
      refuse_if_sealed(noted)
      last = newest_number(@events()) -- none yet, or it is gone
    end
  end
  return last
end

local function wake(queue) woken[queue] = true end

-- Something happened: for those who watch. The answer is the event's number. Events that differ in
-- nothing but task and attempt are one group: {first number, at, queue, event, worker, note, ids,
-- attempts, or one for all}.
local group
local function note_event(id, queue, event, attempt, worker, note)
  local number = (last or last_number()) + 1
  last = number
  if not group or group[4] ~= event or group[3] ~= queue or group[5] ~= worker or group[6] ~= note
    or number - group[1] >= @EVENTS_A_BATCH then
    group = {number, now, queue, event, worker, note, {}, {}}
    groups[#groups + 1] = group
  end
  local at = number - group[1] + 1
  group[7][at], group[8][at] = id, attempt
  return number
end

local function tell_listeners()
  if call('PUBSUB', #KEYS > 0 and 'SHARDNUMSUB' or 'NUMSUB', @events())[2] == 0 then return end
  local rows = {}
  for _, each in ipairs(groups) do
    for number, id in ipairs(each[7]) do
      local attempt = type(each[8]) == 'table' and each[8][number] or each[8]
      rows[#rows + 1] = {number = each[1] + number - 1, at = each[2], id = id, queue = each[3],
                         event = each[4], attempt = attempt, worker = each[5] or cjson.null,
                         note = each[6] or cjson.null}
    end
  end
  publish(@events(), cjson.encode(rows))
end

local function write_batch(batch)
  local newest = batch[#batch]
  add_events(newest[1] + #newest[7] - 1, cmsgpack.pack(batch))
end

local function write_events()
  local batch, size = {}, 0
  for _, each in ipairs(groups) do
    batch[#batch + 1] = each
    size = size + #each[7]
    if size >= @EVENTS_A_BATCH then
      write_batch(batch)
      batch, size = {}, 0
    end
  end
  if #batch > 0 then write_batch(batch) end
  if #groups > 0 then
    call('SET', @last(), string.format('%.0f', last))
    tell_listeners()
  end
end

local function write_wakes()
  for queue in pairs(woken) do
    local number = string.format('%.0f', last_number())
    call('HSET', @queue(queue), 'wakes', number)
    publish_wake(queue, number)
  end
  for worker in pairs(ordered) do
    if call('EXISTS', @worker(worker)) == 1 then
      publish(@orders(worker), call('HINCRBY', @worker(worker), 'wakes', 1))
    end
  end
end

local function tell_all()
  write_events()
  write_wakes()
  groups, group, woken, ordered = {}, nil, {}, {}
end
