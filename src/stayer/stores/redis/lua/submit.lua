-- script: submit
-- Store.submit and Store.submit_flow: accept tasks, each id once.
-- ARGV   3 the tasks in groups (MessagePack, see lib/submit.lua), 4 whether an id comes twice (1 or 0),
--        5 what they are to run after (MessagePack, see lib/ties.lua), or '', 6 a flow (MessagePack: {id,
--        about it as JSON, its time or nothing}), or '', 7 states of upstreams in other shards (MessagePack: id
--        → state) if this is a part of what has been decided, or '', 8 the defaults of queues that they have
--        (MessagePack: queue → defaults), or ''; the rest: records, and values kept apart
-- returns {now, {index, how, value, parameters, result, …} of those that were not fresh, ids of those that
--         wait, whether something is in the outbox for them (1 or 0)}, or, accepting nothing, {now, why}:
--         'known flow', {'unknown upstream', task, upstream}, {'taken', ids}, {'kept out', task, holder}, {'defaults', queue, what they are now, …}
-- to be confirmed by replicas: what was accepted must not get lost
-- include: base, stream

local given, first = cmsgpack.unpack(ARGV[3]), 1
local applied, outdated = ARGV[8] ~= '' and cmsgpack.unpack(ARGV[8]) or {}, {'defaults'}
local looked_at
for number = 1, #given do
  local queue = given[number][@G_QUEUE]
  if queue ~= looked_at then
    local defaults = call('HGET', @queue(queue), 'defaults') or ''
    if defaults ~= (applied[queue] or '') then
      outdated[#outdated + 1], outdated[#outdated + 2] = queue, defaults
    end
    looked_at = queue
  end
end
if #outdated > 1 then return {NOW, outdated} end
local is_plain_submit = ARGV[4] == '0' and ARGV[5] == '' and ARGV[6] == '' and ARGV[7] == ''

-- One task with nothing to be looked at, as most submits are, is accepted as accept_all and tell_all in the libraries
-- would do it; but to make what those need takes as long as this.
local only = is_plain_submit and #given == 1 and #given[1][@G_IDS] == 1 and given[1]
if only and only[@G_PRIORITY] == 0 and not (only[@G_HELD] or only[@G_DELAY] or only[@G_ETA] or only[@G_EXPIRE]
  or only[@G_UNIQUE] or only[@G_APART][1]) then
  local id, queue, lane = only[@G_IDS][1], only[@G_QUEUE], only[@G_LANE]
  local last, lined = tonumber(call('GET', @last()) or nil), call('HGET', @queue(queue), 'lined')
  local is_free = only[@G_GENERATED] or call('EXISTS', @purged(id)) == 0
  if last and not lined and is_free then
    local value, number = ARGV[only[@G_FIRST]], last + 1
    local text = string.format('%.0f', number)
    local standing = string.format('%012d', number) .. id
    local times = struct.pack('>BdBdBd', 203, now, 203, now, 203, number)
    value = string.sub(value, 1, @OWN_AT - 1) .. times .. string.sub(value, @OWN_AT + 27)
    if call('MSETNX', @task(id), value) == 1 then
      local created = string.format('%016d', math.floor(now * 1000000 + 0.5))
      local answers = {
        redis.pcall('ZADD', @state(queue, 'pending'), '0', created .. standing),
        redis.pcall('SADD', @lanes(queue), lane),
        redis.pcall('ZADD', @lane(queue, lane), '0', standing),
        redis.pcall('ZADD', @ids(queue), '0', id),
        redis.pcall('SADD', @queues(), queue),
      }
      for number = 1, 5 do
        if type(answers[number]) == 'table' then -- so it goes again, as in lib/submit.lua
          call('UNLINK', @task(id))
          redis.pcall('ZREM', @state(queue, 'pending'), created .. standing)
          redis.pcall('ZREM', @lane(queue, lane), standing)
          redis.pcall('ZREM', @ids(queue), id)
          return answers[number]
        end
      end
      add_events(number, cmsgpack.pack({{number, now, queue, 'pending', false, false, {id}, 0}}))
      call('SET', @last(), text)
      if call('PUBSUB', #KEYS > 0 and 'SHARDNUMSUB' or 'NUMSUB', @events())[2] ~= 0 then
        publish(@events(), cjson.encode({{number = number, at = now, id = id, queue = queue, event = 'pending',
                                             attempt = 0, worker = cjson.null, note = cjson.null}}))
      end
      call('HSET', @queue(queue), 'wakes', text)
      publish_wake(queue, text)
      return {NOW, {}, {}, 0}
    end
  end
end

-- include: submit

while is_plain_submit and given[first] and accept_all(given[first], tell_all) do first = first + 1 end
if first > #given then
  tell_all()
  return {NOW, {}, {}, 0}
end

-- That was most of them. The others have to be looked at.
-- include: ties, answer, empty_writes

local ties = ARGV[5] ~= '' and cmsgpack.unpack(ARGV[5]) or {}
local flow = ARGV[6] ~= '' and cmsgpack.unpack(ARGV[6]) or nil
local decided = ARGV[7] ~= ''
if decided then states_elsewhere = cmsgpack.unpack(ARGV[7]) end
if flow and not decided then
  if call('EXISTS', @flow(flow[1])) == 1 then
    write_something(@last())
    return {exact(now), 'known flow'}
  end
  local in_use = ids_in_use(given)
  if #in_use > 0 then return {exact(now), {'taken', in_use}} end
end
if flow or #ties > 0 then
  local problem = not decided and look_at_words(given, ties, flow) or look_at_upstreams(given, ties)
  if problem then return {exact(now), problem} end
end

local known, index, fresh = {}, 0, 0
for at, one in ipairs(given) do
  if at >= first and not (at > first and is_plain_submit and accept_all(one, flush)) then
    fetch_all(one[@G_IDS])
    for number in ipairs(one[@G_IDS]) do
      local entry, how = accept(one, number)
      if how ~= 0 then known[#known + 1] = {index + number - 1, how, entry} else fresh = fresh + 1 end
    end
  end
  index = index + #one[@G_IDS]
end
if flow and fresh > 0 then add_flow(flow) end
local waiting = tie(ties)
flush()
if #known > 0 then write_something(@last()) end

local not_fresh = {}
for _, each in ipairs(known) do
  local how, entry = each[2], each[3]
  local apart = how == 1 and values_kept_apart(entry) or {}
  not_fresh[#not_fresh + 1] = each[1]
  not_fresh[#not_fresh + 1] = how
  not_fresh[#not_fresh + 1] = how == 1 and entry.value or entry
  not_fresh[#not_fresh + 1] = apart[1] or false
  not_fresh[#not_fresh + 1] = apart[2] or false
end
return {exact(now), not_fresh, waiting, ended_before and 1 or 0}
