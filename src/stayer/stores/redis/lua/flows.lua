-- What runs after what.

-- script: flows
-- Store.flows and Store.flow.
-- ARGV   3 the id of one, or '', 4 the cursor or '', 5 how many
-- returns {where to go on, or '' at the end, id, about it (JSON), its counts, …}
-- only reads
-- include: base

local ids, following = {}, ''
if ARGV[3] ~= '' then
  if call('EXISTS', @flow(ARGV[3])) == 1 then ids[1] = ARGV[3] end
else
  local upper = ARGV[4] ~= '' and '(' .. ARGV[4] or '+'
  local limit = tonumber(ARGV[5])
  local rows = call('ZREVRANGEBYLEX', @flows(), upper, '-', 'LIMIT', 0, limit + 1)
  for number, member in ipairs(rows) do
    if number <= limit then ids[number] = string.sub(member, 17) end
  end
  if #rows > limit then following = rows[limit] end
end
local found = {following}
for _, id in ipairs(ids) do
  local about = call('GET', @flow(id))
  if about then
    found[#found + 1] = id
    found[#found + 1] = about
    found[#found + 1] = call('HGETALL', @parts(id))
  end
end
return found

-- script: ties
-- Store.upstreams and Store.waits.
-- ARGV   3 up to how many of what it waits for; the rest: ids
-- returns for each {upstreams (a<id> or b<id>), some of what it waits for, how many that is}
-- only reads
-- include: base

local limit, found = tonumber(ARGV[3]), {}
for number = 4, #ARGV do
  local id = ARGV[number]
  local upstreams, waits, named = call('LRANGE', @upstreams(id), 0, -1), {}, {}
  local number_of_waits = call('HLEN', @waits(id))
  for _, each in ipairs(upstreams) do
    if #waits >= limit then break end
    local upstream = string.sub(each, 2)
    if call('HEXISTS', @waits(id), upstream) == 1 then
      waits[#waits + 1] = upstream
      named[upstream] = true
    end
  end
  -- Since a retry it may have a place in a line that it had not before.
  if #waits < math.min(limit, number_of_waits) then
    for _, upstream in ipairs(call('HKEYS', @waits(id))) do
      if #waits < limit and not named[upstream] then waits[#waits + 1] = upstream end
    end
  end
  found[number - 3] = {upstreams, waits, number_of_waits}
end
return found

-- script: outbox
-- What there is to pass on: tasks that have ended, and who waits for them. Cleans away what nobody waits for.
-- ARGV   3 how many waiters at most, 4 what is known of tasks in other shards (MessagePack: id → {the note that was
--        seen, its state}); if any, it is only about these
-- returns {records of the waiters, for each {how many it waits for, an ended one, its state, a or b, …},
--         {a note, its value, …} of tasks in other shards that have to be looked at, {id, note, whether it is gone (1
--         or 0), queues …} of each that others have to hear of}
-- include: tasks, ends

local NOTES = 100
local left = tonumber(ARGV[3])
local list, ended, unknown, afar = {}, {}, {}, {}

local function note_upstream_end(id, upstream, state)
  local entry = fetch(id)
  local kind = entry and call('HGET', @waits(id), upstream)
  if not kind then
    call('SREM', @waiters(upstream), id)
    if not entry then note_missing_record(id) end
    return
  end
  if not entry.ends then
    entry.ends = {call('HLEN', @waits(id))}
    list[#list + 1], ended[#ended + 1] = entry, entry.ends
  end
  local ends = entry.ends
  ends[#ends + 1], ends[#ends + 2], ends[#ends + 3] = upstream, state, kind
end

local function pass_on(upstream, state)
  local waiters = FINISHED[state] and left > 0 and call('SRANDMEMBER', @waiters(upstream), left) or {}
  if not FINISHED[state] or (left > 0 and #waiters == 0) then
    call('HDEL', @outbox(), upstream)
  end
  fetch_all(waiters)
  for _, id in ipairs(waiters) do note_upstream_end(id, upstream, state) end
  left = left - #waiters
end

-- The id of one that was deleted may have come again: then it is this one that is waited for.
local function be_waited_for(entry)
  if entry.r[@DEPENDENTS] then return end
  touch(entry)
  entry.r[@DEPENDENTS] = true
end

local function look_at(upstream, note, seen)
  local entry = fetch(upstream)
  if entry then
    if not FINISHED[entry.r[@STATE]] then be_waited_for(entry) end
    pass_on(upstream, entry.r[@STATE])
  elseif string.sub(note, 1, 1) ~= '?' then
    pass_on(upstream, note)
  elseif seen and seen[1] == note then
    pass_on(upstream, seen[2])
  else
    unknown[#unknown + 1], unknown[#unknown + 2] = upstream, note
  end
end

local function look_afar(id, note)
  local entry = fetch(id)
  if entry and not FINISHED[entry.r[@STATE]] then
    be_waited_for(entry)
    call('HDEL', @afar(), id)
    return
  end
  local row = {id, note, entry and 0 or 1}
  for _, field in ipairs(call('HKEYS', @listeners(id))) do
    if string.sub(field, 1, 1) == '@' then row[#row + 1] = string.sub(field, 2) end
  end
  afar[#afar + 1] = row
end

local verified = cmsgpack.unpack(ARGV[4])
if next(verified) then
  for id, seen in pairs(verified) do
    local note = call('HGET', @outbox(), id)
    if note then look_at(id, note, seen) end
  end
else
  local notes = call('HRANDFIELD', @outbox(), math.min(left, NOTES), 'WITHVALUES')
  for number = 1, #notes, 2 do look_at(notes[number], notes[number + 1]) end
  local far = IS_SHARD and call('HRANDFIELD', @afar(), NOTES, 'WITHVALUES') or {}
  for number = 1, #far, 2 do look_afar(far[number], far[number + 1]) end
end
flush()
local values = {}
for number, entry in ipairs(list) do values[number] = entry.value end
return {values, ended, unknown, afar}

-- script: relay
-- Let waiters hear of what has ended: each in one step with what becomes of it.
-- ARGV   3 {id, how many it waits for, {those that have ended}, a group of one change or false} of each waiter
--        (MessagePack, see lib/change.lua)
-- returns how many notes of ends there are now
-- include: change, empty_writes

whatever_memory_is_left() -- or what was cancelled would be needed for ever by those that wait for it
-- One that waits for another number than it did has heard something else meanwhile: its turn comes again.
local waiters = cmsgpack.unpack(ARGV[3])
local ids = {}
for number, each in ipairs(waiters) do ids[number] = each[1] end
fetch_all(ids)
for _, each in ipairs(waiters) do
  local id, ended, group = each[1], each[3], each[4]
  if call('HLEN', @waits(id)) == each[2] and (not group or apply_one(group)) then
    in_parts('HDEL', @waits(id), ended)
    for _, upstream in ipairs(ended) do call('SREM', @waiters(upstream), id) end
  end
end
flush()
return open_notes()
