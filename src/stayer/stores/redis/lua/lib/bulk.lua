-- Tasks that are alike but for what is their own (see lib/record.lua) are changed alike. Batches are full of
-- those: so what a change makes of one, the leader, is worked out once, and the others follow. Their values are
-- put together from pieces, and what is written of the leader into indexes is written of them all.
-- include: tasks, history

-- The entry of a task; the value is what was read of it.
local function entry_of(id, value)
  if entries[id] == nil then entries[id] = value and open_record(value) or false end
  return entries[id]
end

-- What others may not follow: what counts, waits for something, is waited for or must be told in order.
local function is_plain(entry)
  local r, was, settings = entry.r, entry.was, settings_of(entry.r[@QUEUE])
  local before, state = was.state, r[@STATE]
  return not (r[@KEY] or r[@UNIQUE] or r[@FLOW] or r[@NOTIFY] or r[@DEPENDENTS] or r[@NEAR_NODE] or r[@START_BEFORE]
    or r[@ORDERS] or r[@FINGERPRINT] or was.near or was.start_before or was.orders or was.fingerprint
    or before == 'waiting' or before == 'scheduled' or state == 'waiting' or state == 'scheduled'
    or settings.lined or settings.fair or settings.notify
    or bit.band(entry.flags, 15) ~= 0) -- something is kept apart
end

-- An entry that was changed may lead those that are of the kind it was of; `event_text` is what its history says of the
-- change.
local function lead(leaders, kind, entry, event_text)
  if not is_plain(entry) then return end
  local _, _, kind_now, fields = pack_record(entry)
  entry.others = {count = 0, ids = {}, places = {}, pairs_of = {}, heads = {}, kind = kind_now, fields = fields,
                  event_text = event_text}
  leaders[kind] = entry
end

-- Whom a task follows, if it can; the kind that it is of, where its own part ends, and where its record does.
-- The result that it is to have, as in lib/change.lua, must be one that it can be given by itself.
local function leader_of(leaders, id, value, result)
  if not value or entries[id] ~= nil then return nil end
  local own_end, record_end, flags = ends_of(value)
  local kind = string.sub(value, own_end + 1, record_end)
  local leader = leaders[kind]
  if leader and (leader.flags ~= flags
    or #value - record_end + 12 + #leader.others.event_text > @HISTORY_IN_RECORD
    or result and (type(result) == 'table' or string.byte(value, own_end) ~= 194)) then -- 194: it has none yet
    leader = nil
  end
  return leader, kind, own_end, record_end
end

-- What MessagePack puts in front of a text.
local heads_of_texts = {}
local function head_of_text(text)
  local head = heads_of_texts[#text]
  if not head then
    head = string.sub(cmsgpack.pack(text), 1, -1 - #text)
    heads_of_texts[#text] = head
  end
  return head
end

-- Lets a task follow; its new value. What stands for it in lists, its key and its value come from where they are
-- known already; the result is text, or nothing if it stays; the number is that of the event.
local function follow(leader, id, standing, key, value, own_end, record_end, result, number)
  local others, result_head = leader.others, result and head_of_text(result)
  local own_length = own_end - @OWN_AT + 1 + (result and #result_head + #result - 1 or 0)
  local head = others.heads[own_length]
  if not head then
    head = head_of(leader.flags, own_length, #others.kind, others.fields, now)
    others.heads[own_length] = head
  end
  local new = head .. string.sub(value, @CREATED_AT - 1, result and own_end - 1 or own_end)
    .. (result_head or '') .. (result or '') .. others.kind .. string.sub(value, record_end + 1)
    .. moment(number, leader.r[@ATTEMPT]) .. others.event_text
  local count = others.count + 1
  others.count = count
  others.ids[count], others.places[count] = id, standing
  others.pairs_of[2 * count - 1], others.pairs_of[2 * count] = key, new
  return new
end
