-- Store.purge: forget finished tasks.
-- ARGV   3 the end must be before this, 4 limit, 5 states, 6 ids or false (both MessagePack)
-- returns the ids that are gone
-- needs: base, record, lines, tasks, ends, forget

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
    if state and entry and (entry.r[STATE] ~= state or entry.r[QUEUE] ~= queue) then entry = false end
    local is_newest = not wanted and call('SISMEMBER', key_newest(), id) == 1
    if entry and #gone < limit and not is_newest and (not wanted or (wanted[entry.r[STATE]]
      and entry.r[UPDATED] < before)) and not is_needed(entry) then
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
  for _, queue in ipairs(call('SMEMBERS', key_queues())) do
    for _, state in ipairs(states) do
      if FINISHED[state] and #gone < limit then
        -- What is still needed stays where it is, and is passed over.
        local key, passed = key_finished(queue, state), 0
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
