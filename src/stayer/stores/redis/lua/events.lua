-- What happened, for those who watch and wait.

-- script: watch
-- Store.watch: events after a number. Of a task that is gone only `deleted` is shown.
-- ARGV   3 the number, 4 limit, 5 how many to look at before the answer
-- returns {up to which number was looked at, an array of events (MessagePack), …}
-- only reads
-- include: record, stream

local noted = string.match(call('GET', @last()) or '', '^sealed (%d+)') or call('GET', @last())
local last = tonumber(noted or newest_number(@events()))
-- A failover that lost the newest events uses their numbers again: whoever is ahead starts from here.
local since = math.min(tonumber(ARGV[3]), last)
local limit, budget = tonumber(ARGV[4]), tonumber(ARGV[5])
local first_numbers = {}

-- The number of the event that brought the task which now has this id; nothing if there is none.
local function first_number(id)
  if first_numbers[id] == nil then
    local value = call('GET', @task(id))
    first_numbers[id] = value and select(2, created_and_seq(value)) or false
  end
  return first_numbers[id]
end

local function is_shown(number, id, event)
  if number <= since then return false end
  if id == '' or event == 'deleted' then return true end
  local first = first_number(id)
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
  local batches = call('XRANGE', @events(), string.format('%.0f', seen + 1), string.format('%.0f', last), 'COUNT', 20)
  if #batches == 0 then break end
  for _, batch in ipairs(batches) do
    for _, each in ipairs(cmsgpack.unpack(batch[2][2])) do look(each) end
    if #found == limit then break end
    seen = math.max(seen, tonumber((string.match(batch[1], '^%d+')))) -- also past one that says nothing
  end
end
return {string.format('%.0f', seen), cmsgpack.pack(found)}

-- script: mark
-- What a waiter compares: the numbers of the last wake-up of its queues and of its worker, and
-- whether something came in from outside.
-- ARGV   3 the worker, or ''; the rest: queues
-- returns {number of the worker or nil, how many came in, what tells this store from others or nil, number of
-- each queue or nil …}
-- only reads
-- include: keys

local call = redis.call -- no more: each idle worker asks this every few seconds
local marks = {ARGV[3] ~= '' and call('HGET', @worker(ARGV[3]), 'wakes'), 0, false}
if #KEYS == 0 then marks[3] = call('HGET', @meta(), 'identity') end
if #ARGV > 3 then marks[2] = call('LLEN', @incoming()) end
for number = 4, #ARGV do marks[number] = call('HGET', @queue(ARGV[number]), 'wakes') end
return marks

-- script: copy_news
-- Cluster: copy events of a shard into the stream of all, in the order in which they are copied.
-- ARGV   3 the queue, 4 the number up to which they had been copied, 5 up to which they are now,
--        6 how many are kept; the rest: events (MessagePack)
-- returns 1, or 0 if somebody else has copied some meanwhile
-- include: stream

if (call('HGET', @relayed(), ARGV[3]) or '0') ~= ARGV[4] then return 0 end
local last = tonumber(call('HGET', @relayed(), '') or newest_number(@news()))
for number = 7, #ARGV do
  last = last + 1
  call('XADD', @news(), 'MAXLEN', '~', ARGV[6], string.format('%.0f-0', last), 'e', ARGV[number])
end
-- Not before: a stream of another's making takes none of them, and then none has been copied.
call('HSET', @relayed(), ARGV[3], ARGV[5], '', string.format('%.0f', last))
return 1
