-- What is forgotten.

-- script: purge
-- Store.purge: forget finished tasks.
-- ARGV   3 the end must be before this, 4 limit, 5 states, 6 ids or false (both MessagePack)
-- returns the ids that are gone
-- include: forget, empty_writes

whatever_memory_is_left()
local before, limit = tonumber(ARGV[3]), tonumber(ARGV[4])
local states, ids = cmsgpack.unpack(ARGV[5]), cmsgpack.unpack(ARGV[6])
local gone = {}

-- wanted: the states, if somebody has named these; else all are from the list of a queue and a state
local function forget_all(found, wanted, queue, state)
  fetch_all(found)
  for _, id in ipairs(found) do
    local entry = fetch(id)
    -- One that has lost its record may have been submitted again, and be another one.
    if state and entry and (entry.r[@STATE] ~= state or entry.r[@QUEUE] ~= queue) then entry = false end
    local is_newest = not wanted and call('SISMEMBER', @newest(), id) == 1
    if entry and #gone < limit and not is_newest and (not wanted or (wanted[entry.r[@STATE]]
      and entry.r[@UPDATED] < before)) and not is_needed(entry) then
      forget(entry)
      gone[#gone + 1] = id
    end
  end
end

if ids then
  local wanted = {}
  for _, state in ipairs(states) do wanted[state] = FINISHED[state] end
  forget_all(ids, wanted)
else
  for _, queue in ipairs(call('SMEMBERS', @queues())) do
    for _, state in ipairs(states) do
      if FINISHED[state] and #gone < limit then
        -- What is still needed stays where it is, and is passed over.
        local key, passed = @finished(queue, state), 0
        repeat
          local most = limit - #gone
          local found = call('ZRANGEBYSCORE', key, '-inf', '(' .. ARGV[3], 'LIMIT', passed, most)
          forget_all(found, nil, queue, state)
          passed = passed + #found
        until #gone >= limit or #found < most
      end
    end
  end
end
flush()
return gone

-- script: forget
-- Store.forget: what has been kept for long enough, queue by queue.
-- ARGV   3 about how many, 4 for how long (MessagePack: {what, seconds, …}) where a queue does not say
-- returns how many were seen to
-- include: forget, queues, empty_writes

whatever_memory_is_left()
local limit, usual = tonumber(ARGV[3]), {}
local pairs_of = cmsgpack.unpack(ARGV[4])
for number = 1, #pairs_of, 2 do usual[pairs_of[number]] = pairs_of[number + 1] end
local seen = 0

local function forget_tasks(queue, state, before)
  -- What a schedule or another task still needs stays where it is, and is passed over.
  local key, passed = @finished(queue, state), 0
  repeat
    local most = limit - seen
    local ids = call('ZRANGEBYSCORE', key, '-inf', '(' .. exact(before), 'LIMIT', passed, most)
    fetch_all(ids)
    for _, id in ipairs(ids) do
      local entry = fetch(id)
      -- One that has lost its record may have been submitted again, and be another one.
      local is_its = entry and entry.r[@STATE] == state and entry.r[@QUEUE] == queue
      if is_its and call('SISMEMBER', @newest(), id) == 0 and not is_needed(entry) then
        forget(entry)
        seen = seen + 1
      end
    end
    passed = passed + #ids
  until seen >= limit or #ids < most
end

local function forget_log(entry)
  for _, attempt in ipairs(kept_attempts(entry)) do call('UNLINK', @log(attempt, entry.r[@ID])) end
end

local function forget_result(entry)
  if not entry.r[@RESULT] and bit.band(entry.flags, 12) == 0 then return end
  if is_needed(entry) then
    call('SADD', @spared(entry.r[@QUEUE]), entry.r[@ID])
    return
  end
  touch(entry)
  if bit.band(entry.flags, 12) ~= 0 then call('DEL', @result(entry.r[@ID])) end
  entry.r[@RESULT], entry.flags = nil, bit.band(entry.flags, 51)
end

-- Results that were passed over while others needed them, which none does now. One that has run again is none
-- of them: its new end is seen to like any other.
local function forget_spared(queue, before)
  local gone = tonumber(call('HGET', @queue(queue), 'results_gone') or '0')
  local ids = call('SMEMBERS', @spared(queue))
  for first = 1, #ids, 100 do
    local some = {unpack(ids, first, math.min(first + 99, #ids))}
    fetch_all(some)
    for _, id in ipairs(some) do
      if seen >= limit then return end
      local entry = fetch(id)
      local ended = entry and entry.r[@QUEUE] == queue and FINISHED[entry.r[@STATE]] and entry.r[@UPDATED]
      if not ended or ended > gone then
        call('SREM', @spared(queue), id)
      elseif ended <= before and not is_needed(entry) then
        forget_result(entry)
        call('SREM', @spared(queue), id)
        seen = seen + 1
      end
    end
  end
end

-- Of tasks whose end nobody has seen to, the oldest; all that ended in the same moment.
local function forget_part(queue, mark, before, forget_of)
  local gone, up_to = call('HGET', @queue(queue), mark) or '0', exact(before)
  for state in pairs(FINISHED) do
    local last = call('ZRANGEBYSCORE', @finished(queue, state), '(' .. gone, up_to, 'WITHSCORES',
                      'LIMIT', limit - 1, 1)[2]
    if last then up_to = last end
  end
  local number = 0
  for state in pairs(FINISHED) do
    local ids = call('ZRANGEBYSCORE', @finished(queue, state), '(' .. gone, up_to)
    fetch_all(ids)
    for _, id in ipairs(ids) do
      local entry = fetch(id)
      if entry and entry.r[@STATE] == state and entry.r[@QUEUE] == queue then forget_of(entry) end
    end
    number = number + #ids
  end
  if number > 0 then call('HSET', @queue(queue), mark, up_to) end
  seen = seen + number
end

for _, queue in ipairs(call('SMEMBERS', @queues())) do
  local keep_for = retention(queue)
  for what, seconds in pairs(usual) do keep_for[what] = keep_for[what] or seconds end
  for state in pairs(FINISHED) do
    if keep_for[state] and seen < limit then forget_tasks(queue, state, now - keep_for[state]) end
  end
  flush()
  if keep_for.log and seen < limit then forget_part(queue, 'logs_gone', now - keep_for.log, forget_log) end
  if keep_for.result and seen < limit then forget_spared(queue, now - keep_for.result) end
  if keep_for.result and seen < limit then
    forget_part(queue, 'results_gone', now - keep_for.result, forget_result)
  end
  flush()
  if seen >= limit then break end
end
return seen
