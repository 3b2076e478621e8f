-- What there is to pass on: tasks that have ended, and who waits for them. Cleans away what nobody waits for.
-- ARGV   3 how many waiters at most, 4 what is known of tasks in other shards (MessagePack: id → {the note that was
--        seen, its state}); if any, it is only about these
-- returns {records of the waiters, for each {how many it waits for, an ended one, its state, a or b, …},
--         {a note, its value, …} of tasks in other shards that have to be looked at, {id, note, whether it is gone (1
--         or 0), queues …} of each that others have to hear of}
-- needs: base, record, lines, tasks, ends

local NOTES = 100
local left = tonumber(ARGV[3])
local list, ended, unknown, afar = {}, {}, {}, {}

local function hear(id, upstream, state)
  local entry = fetch(id)
  local kind = entry and call('HGET', key_waits(id), upstream)
  if not kind then
    call('SREM', key_waiters(upstream), id)
    if not entry then note_stray(id) end
    return
  end
  if not entry.heard then
    entry.heard = {call('HLEN', key_waits(id))}
    list[#list + 1], ended[#ended + 1] = entry, entry.heard
  end
  local heard = entry.heard
  heard[#heard + 1], heard[#heard + 2], heard[#heard + 3] = upstream, state, kind
end

local function pass_on(upstream, state)
  local waiters = FINISHED[state] and left > 0 and call('SRANDMEMBER', key_waiters(upstream), left) or {}
  if not FINISHED[state] or (left > 0 and #waiters == 0) then
    call('HDEL', key_outbox(), upstream)
  end
  fetch_all(waiters)
  for _, id in ipairs(waiters) do hear(id, upstream, state) end
  left = left - #waiters
end

-- The id of one that was deleted may have come again: then it is this one that is waited for.
local function be_waited_for(entry)
  if entry.r[DEPENDENTS] then return end
  touch(entry)
  entry.r[DEPENDENTS] = true
end

local function look_at(upstream, note, seen)
  local entry = fetch(upstream)
  if entry then
    if not FINISHED[entry.r[STATE]] then be_waited_for(entry) end
    pass_on(upstream, entry.r[STATE])
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
  if entry and not FINISHED[entry.r[STATE]] then
    be_waited_for(entry)
    call('HDEL', key_afar(), id)
    return
  end
  local told = {id, note, entry and 0 or 1}
  for _, field in ipairs(call('HKEYS', key_listeners(id))) do
    if string.sub(field, 1, 1) == '@' then told[#told + 1] = string.sub(field, 2) end
  end
  afar[#afar + 1] = told
end

local verified = cmsgpack.unpack(ARGV[4])
if next(verified) then
  for id, seen in pairs(verified) do
    local note = call('HGET', key_outbox(), id)
    if note then look_at(id, note, seen) end
  end
else
  local notes = call('HRANDFIELD', key_outbox(), math.min(left, NOTES), 'WITHVALUES')
  for number = 1, #notes, 2 do look_at(notes[number], notes[number + 1]) end
  local far = IS_SHARD and call('HRANDFIELD', key_afar(), NOTES, 'WITHVALUES') or {}
  for number = 1, #far, 2 do look_afar(far[number], far[number + 1]) end
end
flush()
local values = {}
for number, entry in ipairs(list) do values[number] = entry.value end
return {values, ended, unknown, afar}
