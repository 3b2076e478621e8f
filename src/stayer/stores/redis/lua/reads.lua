-- Tasks as they are, and what they have been through.

-- script: get
-- Store.get: tasks by id.
-- ARGV   the rest: ids
-- returns {values, kept apart}
-- only reads
-- include: answer

local ids, list = {unpack(ARGV, 3)}, {}
fetch_all(ids)
for number, id in ipairs(ids) do list[number] = fetch(id) end
return {values_of(list)}

-- script: history
-- Store.attempts and Store.events: all that a task has been through.
-- ARGV   3 the id
-- returns nil, or {value, the older history, {attempt, its newest usage, …}}
-- only reads
-- include: entries, old_history

local id = ARGV[3]
local entry = fetch(id)
if not entry then return false end
local usages = {}
for _, attempt in ipairs(kept_attempts(entry)) do
  local newest = -1
  for _, slot in ipairs(call('HKEYS', @usage(attempt, id))) do
    newest = math.max(newest, tonumber(slot))
  end
  if newest >= 0 then
    usages[#usages + 1] = attempt
    usages[#usages + 1] = call('HGET', @usage(attempt, id), newest)
  end
end
return {entry.value, older_history(id), usages}

-- script: log
-- Store.log: pieces of an attempt's log.
-- ARGV   3 the id, 4 the attempt, 5 the offset, 6 about how many bytes
-- returns {start, at, data, …}, the first piece may begin before the offset
-- only reads
-- include: base

local key, start, limit = @log(ARGV[4], ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
local from = string.format('(%.0f', start - @LOG_PIECE)
local found, size, skipped = {}, 0, 0
while size < limit do
  local rows = call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', skipped, 16)
  for number = 1, #rows, 2 do
    local _, head, start_of, at = string.find(rows[number], '^(%d+):([^:]+):')
    if head and tonumber(at) then -- whatever else somebody put there is no piece of a log
      local data = string.sub(rows[number], head + 1)
      found[#found + 1] = start_of
      found[#found + 1] = at
      found[#found + 1] = data
      size = size + math.max(0, math.min(#data, rows[number + 1] + #data - start))
    end
    if size >= limit then break end
  end
  if #rows < 32 then break end
  skipped = skipped + 16
end
return found

-- script: durations
-- Store.durations: how long complete tasks of a queue took.
-- ARGV   3 the queue, 4 limit
-- returns {{name or nothing, the words of its command}, seconds, …}, those submitted last first
-- only reads
-- include: entries

local WORDS = 50 -- no more tell what it runs, and the stack is small

local ids, found = {}, {}
for number, place_of in ipairs(call('ZREVRANGE', @state(ARGV[3], 'complete'), 0, ARGV[4] - 1)) do
  ids[number] = string.sub(place_of, 29)
end
fetch_all(ids)
for _, id in ipairs(ids) do
  local entry = fetch(id)
  local r = entry and entry.r
  if r and r[@STARTED_AT] then
    local command = r[@COMMAND] or {}
    found[#found + 1] = {r[@NAME] or '', unpack(command, 1, math.min(#command, WORDS))}
    found[#found + 1] = exact(r[@FINISHED_AT] - r[@STARTED_AT])
  end
end
return found
