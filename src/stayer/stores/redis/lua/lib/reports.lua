-- News of running attempts, in a beat or between two.
-- include: tasks

local function acknowledge(r, up_to)
  if not r[@ORDERS] then return end
  local left = {}
  for _, order in ipairs(r[@ORDERS]) do
    if order[1] > up_to or order[2] then
      order[3] = order[3] or order[1] <= up_to
      left[#left + 1] = order
    end
  end
  r[@ORDERS] = #left > 0 and left or nil
end

local function take_log(id, attempt, pieces)
  local log, ends = @log(attempt, id), 0
  for _, piece in ipairs(pieces) do
    local start, data = piece[1], ARGV[piece[2]]
    local score = string.format('%.0f', start)
    call('ZREMRANGEBYSCORE', log, score, score)
    call('ZADD', log, score, score .. ':' .. NOW .. ':' .. data)
    ends = math.max(ends, start + #data)
  end
  if ends > @LOG_HEAD + @LOG_TAIL then
    local middle = call('ZRANGEBYSCORE', log, @LOG_HEAD, ends - @LOG_TAIL, 'WITHSCORES')
    for place_of = 1, #middle, 2 do
      local start = tonumber(middle[place_of + 1])
      local length = #middle[place_of] - select(2, string.find(middle[place_of], '^%d+:[^:]+:'))
      if start + length <= ends - @LOG_TAIL then call('ZREM', log, middle[place_of]) end
    end
  end
end

local function take_usage(id, attempt, point, slot, thin)
  local series = @usage(attempt, id)
  call('HSET', series, slot, point)
  if thin then
    for _, known in ipairs(call('HKEYS', series)) do
      if tonumber(known) > 0 and tonumber(known) % thin ~= 0 then call('HDEL', series, known) end
    end
  end
end

-- report: {id, attempt, progress, checkpoint, acknowledged, paused, usage, slot, grid to thin to, log, statistics, metrics};
-- what is not there is false. paused: 1 or 0.
-- returns whether the worker holds that attempt
local function take_report(worker, report)
  local entry = fetch(report[1])
  local r = entry and entry.r
  if not r or not RUNNING[r[@STATE]] or r[@WORKER] ~= worker or r[@ATTEMPT] ~= report[2] then return false end
  local id, attempt = report[1], report[2]
  touch(entry)
  if report[3] then
    r[@PROGRESS], r[@LOSSES], r[@UPDATED] = exact(now) .. ' ' .. report[3], nil, now
  end
  if report[4] then
    call('HSET', @checkpoint(id), 'attempt', attempt, 'at', exact(now), 'data', ARGV[report[4]])
    r[@CHECKPOINT_AT], r[@LOSSES], r[@UPDATED] = now, nil, now
  end
  if report[5] > 0 then acknowledge(r, report[5]) end
  if #report[10] > 0 then take_log(id, attempt, report[10]) end
  if report[6] and r[@STATE] == 'started' then r[@PAUSED], r[@UPDATED] = report[6] == 1 or nil, now end
  if report[7] then
    r[@USAGE] = exact(now) .. ' ' .. report[7]
    take_usage(id, attempt, r[@USAGE], report[8], report[9])
  end
  if report[11] then
    call('HSET', @usage(attempt, id), '-1', exact(now) .. ' ' .. report[11])
    r[@METRICS], r[@LOSSES], r[@UPDATED] = report[12] or nil, nil, now
  end
  return true
end
