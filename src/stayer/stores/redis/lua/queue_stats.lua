-- What queues did, minute by minute.

-- script: sample
-- Store.sample: write down the figures of the minutes that are over and not yet counted.
-- ARGV   3 how far back to make up for minutes, in seconds; the rest: lengths of stretches and how long
--        to keep them, in seconds
-- returns 1 if this call did it, 0 if there was nothing to do
-- include: entries, queues
--
-- A figure is text: depth running age submitted complete failed cancelled ran waited; `-` if not known.

local MINUTE = 60
local SAMPLES = 2000
local PLACES = {submitted = 4, complete = 5, failed = 6, cancelled = 7, ran = 8, waited = 9}

local finish = math.floor(now / MINUTE) * MINUTE
local last = tonumber(call('HGET', @meta(), 'sampled') or finish - MINUTE)
if last >= finish or string.find(call('GET', @last()) or '', '^sealed') then return 0 end
call('HSET', @meta(), 'sampled', string.format('%.0f', finish))

local function add(found, queue, what, number)
  for _, name in ipairs({queue, ''}) do
    local figures = found[name]
    if not figures then
      figures = {'-', '-', '-', 0, 0, 0, 0, 0, 0}
      found[name] = figures
    end
    figures[PLACES[what]] = figures[PLACES[what]] + number
  end
end

local names = call('SMEMBERS', @queues())

-- Lists are in the order of submission, so those of a minute lie together; but what runs is in no order.
local function count_list(queue, state, least, most)
  local key, number = @state(queue, state), 0
  if not RUNNING[state] then return call('ZLEXCOUNT', key, '[' .. least, '(' .. most) end
  for _, member in ipairs(call('SMEMBERS', key)) do
    if member >= least and member < most then number = number + 1 end
  end
  return number
end

local function count_submitted(found, from, to)
  local least, most = string.format('%016d', from * 1000000), string.format('%016d', to * 1000000)
  for _, queue in ipairs(names) do
    local number = count_list(queue, 'held', least, most)
    for _, state in ipairs(STATES) do number = number + count_list(queue, state, least, most) end
    if number > 0 then add(found, queue, 'submitted', number) end
  end
end

-- Of very many, some in equal distances stand for all: nobody is to wait for this.
local function count_ended(found, queue, state, from, to)
  local key = @finished(queue, state)
  local first = call('ZCOUNT', key, '-inf', '(' .. from)
  local number = call('ZCOUNT', key, from, '(' .. to)
  local distance = math.ceil(number / SAMPLES)
  local ids = {}
  for rank = first, first + number - 1, math.max(1, distance) do
    ids[#ids + 1] = call('ZRANGE', key, rank, rank)[1]
  end
  fetch_all(ids)
  local ran, waited = 0, 0
  for _, id in ipairs(ids) do
    local r = fetch(id) and fetch(id).r
    if r and r[@STARTED_AT] and r[@FINISHED_AT] then
      ran = ran + (r[@FINISHED_AT] - r[@STARTED_AT])
      waited = waited + (r[@STARTED_AT] - r[@CREATED])
    end
  end
  if number > 0 then
    add(found, queue, state, number)
    add(found, queue, 'ran', ran * number / #ids)
    add(found, queue, 'waited', waited * number / #ids)
  end
end

-- How it stands now, for the minute that has just ended. What is at rest is left out.
local function measure(found)
  local whole = found['']
  whole[1], whole[2] = 0, 0
  for _, queue in ipairs(names) do
    local depth, running = count(queue, 'pending'), count(queue, 'reserved') + count(queue, 'started')
    if depth > 0 or running > 0 or found[queue] then
      local figures = found[queue] or {'-', '-', '-', 0, 0, 0, 0, 0, 0}
      found[queue] = figures
      figures[1], figures[2] = depth, running
      whole[1], whole[2] = whole[1] + depth, whole[2] + running
      local oldest = call('ZRANGE', @state(queue, 'pending'), 0, 0)[1]
      if oldest then
        figures[3] = math.max(0, now - tonumber(string.sub(oldest, 1, 16)) / 1000000)
        whole[3] = whole[3] == '-' and figures[3] or math.max(whole[3], figures[3])
      end
    end
  end
end

-- What somebody else has written there counts as not known.
local function join_figures(known, figures)
  local before, result = {}, {}
  for word in string.gmatch(known or '', '%S+') do before[#before + 1] = tonumber(word) or '-' end
  for place, number in ipairs(figures) do
    local other = before[place] or '-'
    if other == '-' or number == '-' then result[place] = other == '-' and number or other
    elseif place > 3 then result[place] = other + number
    else result[place] = math.max(other, number) end
  end
  return result
end

local function text_of(figures)
  local words = {}
  for place, value in ipairs(figures) do words[place] = type(value) == 'number' and exact(value) or value end
  return table.concat(words, ' ')
end

local function keep(at, found)
  for argument = 4, #ARGV, 2 do
    local step = tonumber(ARGV[argument])
    local stretch = string.format('%.0f', math.floor(at / step) * step)
    local key = @figures(ARGV[argument], stretch)
    for queue, figures in pairs(found) do
      call('HSET', key, queue, text_of(join_figures(call('HGET', key, queue), figures)))
    end
    call('EXPIRE', key, ARGV[argument + 1] + step)
  end
end

for at = math.max(last, finish - ARGV[3]), finish - MINUTE, MINUTE do
  local found = {[''] = {'-', '-', '-', 0, 0, 0, 0, 0, 0}}
  count_submitted(found, at, at + MINUTE)
  for _, queue in ipairs(names) do
    for state in pairs(FINISHED) do count_ended(found, queue, state, at, at + MINUTE) end
  end
  if at == finish - MINUTE then measure(found) end
  keep(at, found)
end
return 1

-- script: figures
-- Store.figures: what was written down of a stretch of time.
-- ARGV   3 the length of a stretch, 4 the first, 5 the last, 6 'all' or 'these'; the rest: queues
-- returns {{at, queue, figures, …}, …}
-- only reads
-- include: base

local found = {}
for at = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[3]) do
  local stretch = string.format('%.0f', at)
  local key = @figures(ARGV[3], stretch)
  local known = {}
  if ARGV[6] == 'all' then
    known = call('HGETALL', key)
  else
    for number = 7, #ARGV do
      local figures = call('HGET', key, ARGV[number])
      if figures then
        known[#known + 1] = ARGV[number]
        known[#known + 1] = figures
      end
    end
  end
  if #known > 0 then found[#found + 1] = {stretch, known} end
end
return found
