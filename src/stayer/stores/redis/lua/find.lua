-- script: find
-- Store.find: tasks that match, newest first.
-- ARGV   3 the filter (MessagePack: ids, prefix, queues, states, name, what fields are equal to as {number,
--        value}, tags, held (1 or 0), since and until as µs with 16 digits, flow and fingerprint once
--        more, for the lists of them, words to search for as {as it is, as in JSON}, has files; false where nothing is asked), 4 the cursor or '', 5 the place above which all that is wanted stands, or '', 6 how many are wanted,
--        7 how many lists and tasks may be looked at, 8 how many queues may
-- returns {where to go on, or '' at the end, values, kept apart}; or, where there are more queues than that, {all
--         queues}: some of them at a time are to be asked for
-- only reads
-- include: answer, lines, heap

local filter, cursor, floor = cmsgpack.unpack(ARGV[3]), ARGV[4], ARGV[5]
local wanted, budget, most_queues = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local F_IDS, F_PREFIX, F_QUEUES, F_STATES, F_NAME, F_EQUAL, F_TAGS, F_HELD, F_SINCE, F_UNTIL, F_FLOW,
  F_FINGERPRINT, F_SEARCH, F_FILES = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
local STATES = {'waiting', 'scheduled', 'pending', 'held', 'reserved', 'started', 'complete', 'failed', 'cancelled'}
local FEW = 5000

local function as_set(list)
  if not list then return nil end
  local set = {}
  for _, each in ipairs(list) do set[each] = true end
  return set
end
local queues, states = as_set(filter[F_QUEUES]), as_set(filter[F_STATES])
local is_loose = filter[F_NAME] or filter[F_EQUAL] or filter[F_TAGS] or filter[F_HELD] or filter[F_PREFIX]
  or filter[F_SEARCH] or filter[F_FILES]

local function has_equal(r)
  for _, field in ipairs(filter[F_EQUAL]) do
    if r[field[1]] ~= field[2] then return false end
  end
  return true
end

local function has_tags(r)
  local tags = as_set(r[@TAGS] or {})
  for _, tag_of in ipairs(filter[F_TAGS]) do
    if not tags[tag_of] then return false end
  end
  return true
end

-- All that a search looks at, in small letters: see core/search.py.
local function searched(entry)
  local r, texts = entry.r, {}
  local function add(text)
    if type(text) == 'string' then texts[#texts + 1] = string.lower(text) end
  end
  add(r[@ID])
  add(r[@NAME])
  for _, word in ipairs(r[@COMMAND] or {}) do add(word) end
  for _, tag_of in ipairs(r[@TAGS] or {}) do add(tag_of) end
  if r[@ERROR] then
    local can, fault = pcall(cjson.decode, r[@ERROR])
    if can and type(fault) == 'table' then
      add(fault.type)
      add(fault.message)
    end
  end
  local parameters = r[@PARAMETERS]
  if bit.band(entry.flags, 3) == @PARAMETERS_TEXT then parameters = call('GETRANGE', @parameters(r[@ID]), 0, 8191) end
  local as_json = type(parameters) == 'string' and parameters or ''
  if type(r[@META]) == 'string' then as_json = as_json .. ' ' .. r[@META] end
  return texts, string.lower(as_json)
end

local function has_words(entry)
  local texts, as_json = searched(entry)
  for _, word in ipairs(filter[F_SEARCH]) do
    local found = string.find(as_json, string.lower(word[2]), 1, true)
    for number = 1, found and 0 or #texts do
      found = found or string.find(texts[number], string.lower(word[1]), 1, true)
    end
    if not found then return false end
  end
  return true
end

-- What no list is sorted by, checked task by task.
local function matches(entry)
  local r = entry.r
  local name = filter[F_NAME]
  local prefix = filter[F_PREFIX]
  return (not name or handler_of(r) == 'name ' .. name or handler_of(r) == 'command ' .. name)
    and (not filter[F_EQUAL] or has_equal(r))
    and (not filter[F_FILES] or string.find(r[@CODE] or '', '"files"', 1, true))
    and (not filter[F_HELD] or (r[@HELD] or false) == (filter[F_HELD] == 1))
    and (not filter[F_TAGS] or has_tags(r))
    and (not prefix or string.sub(r[@ID], 1, #prefix) == prefix)
    and (not filter[F_FLOW] or ((not queues or queues[r[@QUEUE]]) and (not states or states[r[@STATE]])))
    and (not filter[F_SEARCH] or has_words(entry))
end

local upper = cursor ~= '' and '(' .. cursor or '+'
if filter[F_UNTIL] and (cursor == '' or filter[F_UNTIL] < cursor) then upper = '(' .. filter[F_UNTIL] end
local lower = filter[F_SINCE] and '[' .. filter[F_SINCE] or '-'
if floor ~= '' and (lower == '-' or floor > filter[F_SINCE]) then lower = '[' .. floor end

local function within(place_of)
  return (upper == '+' or place_of < string.sub(upper, 2)) and (lower == '-' or place_of >= string.sub(lower, 2))
end

local queues_asked = filter[F_QUEUES]
if not queues_asked and not filter[F_IDS] and not filter[F_FLOW] then
  queues_asked = call('SMEMBERS', @queues())
  if #queues_asked > most_queues then return {queues_asked} end
end

-- By id, or by few that begin so: all of them are read and sorted.
local function among(ids)
  local found = {}
  fetch_all(ids)
  for _, id in ipairs(ids) do
    local entry = fetch(id)
    if entry and not entry.seen and matches(entry) and (not queues or queues[entry.r[@QUEUE]])
      and (not states or states[entry.r[@STATE]]) and within(place(entry)) then
      entry.seen, entry.place = true, place(entry)
      found[#found + 1] = entry
    end
  end
  table.sort(found, function(one, other) return one.place > other.place end)
  while #found > wanted do table.remove(found) end
  return found
end

local function beginning(prefix)
  local ids = {}
  for _, queue in ipairs(queues_asked) do
    local some = call('ZRANGEBYLEX', @ids(queue), '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, FEW + 1)
    for _, id in ipairs(some) do ids[#ids + 1] = id end
    if #ids > FEW then return nil end
  end
  return ids
end

-- Those of a fault, unless they are many: then they are soon met in the lists.
local function ids_with_fault(fingerprint)
  local ids = {}
  for _, queue in ipairs(queues_asked) do
    for _, id in ipairs(call('ZRANGE', @failed(queue, fingerprint), 0, FEW)) do ids[#ids + 1] = id end
    if #ids > FEW then return nil end
  end
  return ids
end

-- Else: from the lists of each queue and state, merged.
local function lists()
  local found = {}
  if filter[F_FLOW] then return {{key = @members(filter[F_FLOW]), upper = upper}} end
  for _, queue in ipairs(queues_asked) do
    for _, state in ipairs(STATES) do
      if (not states or states[state == 'held' and 'pending' or state])
        and (not filter[F_FINGERPRINT] or state == 'failed') then
        found[#found + 1] = {key = @state(queue, state), upper = upper, is_running = RUNNING[state]}
      end
    end
  end
  return found
end

-- What runs is in no order, and never very much.
local function running(key)
  local rows = {}
  for _, member in ipairs(call('SMEMBERS', key)) do
    if within(member) then rows[#rows + 1] = member end
  end
  table.sort(rows, function(one, other) return one > other end)
  return rows
end

local looked = 0
local function fill(list)
  list.rows = list.is_running and running(list.key)
    or call('ZREVRANGEBYLEX', list.key, list.upper, lower, 'LIMIT', 0, list.part)
  list.at = 1
  list.head = list.rows[1]
  looked = looked + 1 + (list.is_running and #list.rows or 0)
end

-- The next portion of a list is larger: much may come from it.
local function step(list)
  local member = list.head
  list.at = list.at + 1
  list.head = list.rows[list.at]
  if not list.head and #list.rows == list.part and not list.is_running then
    list.upper, list.part = '(' .. member, math.min(200, list.part * 2)
    fill(list)
  end
end

local function has_newer(one, other) return one.head > other.head end

local function take_newest(heap)
  local list = heap[1]
  if not list then return nil end
  local member = list.head
  step(list)
  if list.head then sink(heap, 1, has_newer) else drop_first(heap, has_newer) end
  return member
end

local function heads_of(all)
  local filled = {}
  local part = math.max(2, math.min(200, math.ceil(wanted / math.max(1, #all)) * 2))
  for _, list in ipairs(all) do
    list.part = part
    fill(list)
    if list.head then filled[#filled + 1] = list end
  end
  return make_heap(filled, has_newer)
end

local function merge()
  local heads = heads_of(lists())
  local found, position = {}, ''
  repeat
    local ids, numbers, member = {}, {}, nil
    for _ = 1, math.min(500, is_loose and 500 or wanted - #found) do
      member = take_newest(heads)
      if not member then break end
      ids[#ids + 1] = string.sub(member, 29)
      numbers[#numbers + 1] = tonumber(string.sub(member, 17, 28))
      position = string.sub(member, 1, 28)
    end
    fetch_all(ids)
    looked = looked + #ids
    for number, id in ipairs(ids) do
      local entry = fetch(id)
      -- One that has lost its record may have been submitted again.
      if entry and entry.r[@SEQ] == numbers[number] and #found < wanted and (not is_loose or matches(entry)) then
        found[#found + 1] = entry
      end
    end
    if not member then return found, '' end
  until #found >= wanted or looked >= budget
  return found, position
end

local found, position = nil, ''
if filter[F_IDS] then
  found = among(filter[F_IDS])
else
  local ids = not filter[F_FLOW] and (filter[F_PREFIX] and beginning(filter[F_PREFIX])
    or filter[F_FINGERPRINT] and ids_with_fault(filter[F_FINGERPRINT]))
  if ids then found = among(ids) else found, position = merge() end
end
return {position, values_of(found)}
