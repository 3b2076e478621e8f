-- Accepting tasks: each id once.
--
-- Tasks come in groups of those that differ in nothing that the indexes know: {queue, lane, priority,
-- held?, drawn at random?, delay or nil, has an eta or a tie?, after how many seconds it expires (text: at a
-- moment that its record has, or by its deadline) or nil, after how many seconds it has to have ended or nil, is unique?, number of the argument with the first value, ids, and for
-- each id false or the number of the argument with parameters that are kept apart}
-- include: settings, events
-- scope

-- The one setting that a new task depends on.
local function is_lined(queue)
  local known = settings_of_queues[queue]
  if known then return known.lined end
  return call('HGET', @queue(queue), 'lined') and true
end

-- A value that came without them, with its times and its number.
local function with_times(value, seq)
  return string.sub(value, 1, @OWN_AT - 1) .. struct.pack('>BdBdBd', 203, now, 203, now, 203, seq)
    .. string.sub(value, @OWN_AT + 27)
end

local function any_purged(ids)
  for first = 1, #ids, @ARGUMENTS_AT_ONCE do
    local keys = {}
    for number = first, math.min(first + @ARGUMENTS_AT_ONCE - 1, #ids) do keys[#keys + 1] = @purged(ids[number]) end
    if call('EXISTS', unpack(keys)) > 0 then return true end
  end
  return false
end

-- The same happened to many new tasks of a queue, one after the other.
local function note_events(ids, queue, event, attempts, worker)
  groups[#groups + 1] = {last_number() + 1, now, queue, event, worker, false, ids, attempts}
  last, group = last + #ids, nil
end

-- A key of another type is in the way of new tasks: they go again from where they are already, and what came before
-- them is finished, so that all of it can be submitted again.
local function take_back(written, finish, problem)
  for key, arguments in pairs(written) do
    for number = 2, #arguments, 2 do redis.pcall('ZREM', key, arguments[number]) end
  end
  finish()
  error(problem)
end

-- A whole group that is to be pending, if all of it is new; false if something has to be looked at.
-- The caller sees to it that no id comes twice, and says how to finish what came before.
local function accept_all(group, finish)
  local ids, queue = group[@G_IDS], group[@G_QUEUE]
  if group[@G_DELAY] or group[@G_ETA] or group[@G_EXPIRE] or group[@G_UNIQUE] or is_lined(queue)
    or #ids > @ARGUMENTS_AT_ONCE / 2 or (not group[@G_GENERATED] and any_purged(ids)) then
    return false
  end
  local records, places, tickets, names = {}, {}, {}, {}
  local score = string.format('%.0f', -group[@G_PRIORITY])
  local created = string.format('%016d', math.floor(now * 1000000 + 0.5))
  local first = last_number()
  for number, id in ipairs(ids) do
    local at = 2 * number
    records[at - 1] = @task(id)
    records[at] = with_times(ARGV[group[@G_FIRST] + number - 1], first + number)
    local standing = string.format('%012d', first + number) .. id
    places[at - 1], places[at] = '0', created .. standing
    tickets[at - 1], tickets[at] = score, standing
    names[at - 1], names[at] = '0', id
  end
  if call('MSETNX', unpack(records)) == 0 then return false end
  local shelf = group[@G_HELD] and 'held' or 'pending'
  local answers = {
    redis.pcall('ZADD', @state(queue, shelf), unpack(places)),
    redis.pcall('ZADD', @ids(queue), unpack(names)),
    redis.pcall('SADD', @queues(), queue),
  }
  if not group[@G_HELD] then
    answers[4] = redis.pcall('SADD', @lanes(queue), group[@G_LANE])
    answers[5] = redis.pcall('ZADD', @lane(queue, group[@G_LANE]), unpack(tickets))
    if group[@G_PRIORITY] ~= 0 then answers[6] = redis.pcall('ZADD', @ranked(queue), unpack(tickets)) end
  end
  for number = 1, #answers do
    if type(answers[number]) == 'table' then
      for each = 1, #records, 2 do call('UNLINK', records[each]) end
      take_back({[@state(queue, shelf)] = places, [@lane(queue, group[@G_LANE])] = tickets,
                 [@ranked(queue)] = tickets, [@ids(queue)] = names}, finish, answers[number])
    end
  end
  note_events(ids, queue, 'pending', 0, false)
  for number, id in ipairs(ids) do
    local apart = group[@G_APART][number]
    if apart then call('SET', @parameters(id), ARGV[apart]) end
  end
  wake(queue)
  return true
end
