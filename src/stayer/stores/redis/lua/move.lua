-- Moving a store: what it holds, a batch at a time, and back; and the mark that it bears meanwhile (see dump.py, load.py and sealing.py).

-- script: put_seal
-- Store.put_seal: let nobody change anything, or everybody again. Workers that are silent are forgotten: they hold nothing, and
-- must not come back to life here.
-- ARGV   3 the mark as JSON, or '' for none; 4 what is said to whoever wants to change something; 5 numbers of events
--        go on at least from here
-- returns nothing
-- to be confirmed by replicas: what was moved must not be used again
-- include: stream

local noted = call('GET', @last()) or ''
local number = tonumber(noted) or tonumber(string.match(noted, '^sealed (%d+)') or nil) or newest_number(@events())
local loaded = tonumber(call('HGET', @meta(), 'loaded') or 0)
local text = string.format('%.0f', math.max(number, loaded, tonumber(ARGV[5])))
if ARGV[3] == '' then
  call('HDEL', @meta(), 'seal')
  call('SET', @last(), text)
  return false
end
call('HSET', @meta(), 'seal', ARGV[3])
call('SET', @last(), 'sealed ' .. text .. ' ' .. ARGV[4])
for _, worker in ipairs(call('SMEMBERS', @workers())) do
  local lease_end = tonumber(call('HGET', @worker(worker), 'lease_end') or 0)
  if lease_end < now and call('EXISTS', @held(worker)) == 0 then
    call('DEL', @worker(worker))
    call('SREM', @workers(), worker)
    call('ZREM', @late(), worker)
    call('ZREM', @early(), worker)
  end
end
return false

-- script: dump_queue
-- Store.dump: a queue's settings.
-- ARGV   3 its name
-- returns the hashes of the queue, of its key limits and of its shares, as lists
-- only reads
-- include: base

return {call('HGETALL', @queue(ARGV[3])), call('HGETALL', @key_limits(ARGV[3])), call('HGETALL', @shares(ARGV[3]))}

-- script: dump_tasks
-- Store.dump: tasks of a queue.
-- ARGV   3 the queue, 4 the bound from which on, 5 about how many bytes, 6 how many at most
-- returns {the bound from which to go on, or '' if that was all, {value, parameters and result that are kept apart,
--         older history, its tail}, …}
-- only reads
-- include: places, answer

local places, are_all = places_from(ARGV[3], ARGV[4], tonumber(ARGV[6]))
local most, size, found, bound = tonumber(ARGV[5]), 0, {''}, ''
for number, each in ipairs(places) do
  local id = string.sub(each, 29)
  local entry = fetch(id)
  if entry and entry.r[@QUEUE] == ARGV[3] then
    local apart = values_kept_apart(entry)
    local parts = {call('LRANGE', @history(id), 0, -1), call('LRANGE', @history_tail(id), 0, -1)}
    found[#found + 1] = {entry.value, apart[1], apart[2], parts[1], parts[2]}
    size = size + #entry.value + #(apart[1] or '') + #(apart[2] or '') + 4000 * (#parts[1] + #parts[2])
  end
  if number == #places and are_all then bound = '' else bound = '(' .. each end
  if size >= most then break end
end
found[1] = bound
return found

-- script: dump_kept
-- Store.dump: what is kept of the tasks of a queue beside their records.
-- ARGV   3 the queue, 4 logs, usage, checkpoints or ties, 5 the bound of tasks from which on, 6 the attempt of the first of them
--        from which on, 7 behind which start of its log, 8 about how many bytes, 9 how many tasks at most
-- returns {the bound, attempt and start from which to go on ('' if that was all), rows …}
-- only reads
-- include: places, old_history

local kind, most, size = ARGV[4], tonumber(ARGV[8]), 0
local places, are_all = places_from(ARGV[3], ARGV[5], tonumber(ARGV[9]))
local found = {'', '0', '-1'}

local function add(row)
  found[#found + 1] = row
  for _, cell in ipairs(row) do size = size + (type(cell) == 'string' and #cell or 100) end
end

-- Up to where it got, if not to the end of the log.
local function add_log(id, attempt, start)
  local key = @log(attempt, id)
  while true do
    local rows = call('ZRANGEBYSCORE', key, '(' .. start, '+inf', 'WITHSCORES', 'LIMIT', 0, 16)
    for number = 1, #rows, 2 do
      local _, head, start_of, at = string.find(rows[number], '^(%d+):([^:]+):')
      if head and tonumber(at) then add({id, attempt, start_of, at, string.sub(rows[number], head + 1)}) end
      start = rows[number + 1]
    end
    if #rows < 32 then return nil end
    if size >= most then return start end
  end
end

-- Where in a task to go on, if there is more of it.
local function add_kept(entry, first, start)
  local id, r = entry.r[@ID], entry.r
  if kind == 'checkpoints' then
    local saved = call('HMGET', @checkpoint(id), 'attempt', 'at', 'data')
    if saved[1] and saved[2] and saved[3] then add({id, saved[1], saved[2], saved[3]}) end
  elseif kind == 'ties' then
    local upstreams, waits = call('LRANGE', @upstreams(id), 0, -1), call('HGETALL', @waits(id))
    if #upstreams > 0 or #waits > 0 then
      add({id, FINISHED[r[@STATE]] and 1 or 0, upstreams, waits})
      size = size + 40 * #upstreams
    end
  else
    for _, attempt in ipairs(kept_attempts(entry)) do
      if attempt >= first then
        if kind == 'logs' then
          local reached = add_log(id, attempt, attempt == first and start or '-1')
          if reached then return attempt, reached end
        else
          local points = call('HGETALL', @usage(attempt, id))
          if #points > 0 then add({id, attempt, points}) end
          for _, each in ipairs(points) do size = size + #each end
        end
        if size >= most then return attempt + 1, '-1' end
      end
    end
  end
  return nil
end

local first, start = tonumber(ARGV[6]), ARGV[7]
for number, each in ipairs(places) do
  local entry = fetch(string.sub(each, 29))
  if entry and entry.r[@QUEUE] == ARGV[3] then
    local attempt, reached = add_kept(entry, first, start)
    if attempt then
      found[1], found[2], found[3] = '[' .. each, string.format('%.0f', attempt), reached
      return found
    end
  end
  first, start = 0, '-1'
  entries = {}
  found[1] = number == #places and are_all and '' or '(' .. each
  if size >= most then break end
end
return found

-- script: dump_flows
-- Store.dump: flows, oldest first.
-- ARGV   3 the bound from which on, 4 how many
-- returns {place, about it (JSON), …}
-- only reads
-- include: base

local found = {}
for _, each in ipairs(call('ZRANGEBYLEX', @flows(), ARGV[3], '+', 'LIMIT', 0, ARGV[4])) do
  local id = string.sub(each, 17)
  found[#found + 1] = each
  found[#found + 1] = call('GET', @flow(id))
end
return found

-- script: dump_notices
-- Store.dump: notices, oldest first.
-- ARGV   3 the bound from which on, 4 how many
-- returns {place, its hash as a list, …}
-- only reads
-- include: base

local places = {}
for _, state in ipairs({'pending', 'delivered', 'failed'}) do
  for _, each in ipairs(call('ZRANGEBYLEX', @notices(state), ARGV[3], '+', 'LIMIT', 0, ARGV[4])) do
    places[#places + 1] = each
  end
end
table.sort(places)
local found = {}
for number = 1, math.min(#places, tonumber(ARGV[4])) do
  local id = string.sub(places[number], 17)
  found[#found + 1] = places[number]
  found[#found + 1] = call('HGETALL', @notice(id))
end
return found

-- script: load_tasks
-- Store.load: tasks, with all indexes; those that are there already are left as they are.
-- ARGV   3 for each (MessagePack) the numbers of the arguments with its value, with parameters and result that are
--        kept apart (or false), and lists of those with parts of its older history, and of that one's tail; the rest: these
-- returns how many are new
-- include: tasks

local count = 0
for _, one in ipairs(cmsgpack.unpack(ARGV[3])) do
  local entry = open_record(ARGV[one[1]])
  local r = entry.r
  local id = r[@ID]
  if not fetch(id) then
    if one[2] then call('SET', @parameters(id), ARGV[one[2]]) end
    if one[3] then call('SET', @result(id), ARGV[one[3]]) end
    call('DEL', @history(id), @history_tail(id))
    for _, part in ipairs(one[4]) do call('RPUSH', @history(id), ARGV[part]) end
    for _, part in ipairs(one[5]) do call('RPUSH', @history_tail(id), ARGV[part]) end
    -- Its result is older than they are kept, but was needed by others.
    if FINISHED[r[@STATE]] and r[@DEPENDENTS] and (r[@RESULT] or one[3])
      and r[@UPDATED] <= tonumber(call('HGET', @queue(r[@QUEUE]), 'results_gone') or -1) then
      call('SADD', @spared(r[@QUEUE]), id)
    end
    -- Other stores may number events in their own way; those of one task only have to tell their order.
    if r[@SEQ] < 0 then r[@SEQ] = call('HINCRBY', @meta(), 'loaded', 1) end
    entry.touched, entry.was = true, {}
    entries[id] = entry
    touched[#touched + 1] = entry
    count = count + 1
  end
end
flush()
return count

-- script: load_ties
-- Store.load: what tasks, which are there, were to run after and wait for. What waits for an end that has been hears of it.
-- ARGV   3 for each (MessagePack) its id, what it was to run after (a<id> or b<id>), and what it waits for {id, a or b, …}
-- returns nothing
-- include: tasks, ends

for _, one in ipairs(cmsgpack.unpack(ARGV[3])) do
  local id, upstreams, waits = one[1], one[2], one[3]
  call('DEL', @upstreams(id))
  for _, each in ipairs(upstreams) do
    local upstream = string.sub(each, 2)
    call('RPUSH', @upstreams(id), each)
    call('SADD', @dependents(upstream), id)
  end
  for number = 1, #waits, 2 do
    local upstream = waits[number]
    call('HSET', @waits(id), upstream, waits[number + 1])
    call('SADD', @waiters(upstream), id)
    local entry = fetch(upstream)
    if not entry or FINISHED[entry.r[@STATE]] then
      local state = known_state(upstream)
      if state then call('HSET', @outbox(), upstream, state) else note_unknown(upstream) end
    end
  end
end
return false
