-- What is pushed from outside.
-- include: base

local REFUSED_KEPT = 1000

local function refuse(place, item, why)
  call('LPUSH', place, cjson.encode({item = item, error = why, at = now}))
  call('LTRIM', place, 0, REFUSED_KEPT - 1)
end

-- script: read_incoming
-- What came in from outside, to be looked at: as much as is taken at once.
-- ARGV   3 how many items, 4 how many bytes one may have, and all of them, 5 how much is shown of a longer one
-- returns {items, the oldest first}; if a longer one comes next, also its length and its beginning
-- only reads

local most = tonumber(ARGV[4])
local left, found = most, {}
for number = 1, tonumber(ARGV[3]) do
  local item = call('LINDEX', @incoming(), -number)
  if not item then break end
  if #item > most then return {found, #item, string.sub(item, 1, tonumber(ARGV[5]))} end
  left = left - #item
  if left < 0 then break end
  found[number] = item
end
return {found}

-- script: number_incoming
-- Cluster: give ids to the oldest items that came in from outside, in the step in which they leave the list.
-- ARGV   3 how many bytes an item may have, and about all that are answered, 4 how much is shown of a longer one;
--        the rest: ids, for as many as there are
-- returns {how many there are in all, the length of the next one if it is too long, or 0, its beginning, those that
--         somebody has to see to, oldest first: `id item` …}
-- to be confirmed by replicas: a task must not come under two ids
-- include: empty_writes

local most, first, wanted = tonumber(ARGV[3]), 4, #ARGV - 4
local known = call('ZCARD', @taken())
local left, found, long = most, {}, nil

-- Whether there is room for as many bytes; for the first there always is.
local function fits(size)
  if size > left and #found > 0 then return false end
  left = left - size
  return true
end

for rank = 0, math.min(known, wanted) - 1 do
  local item = call('ZRANGE', @taken(), rank, rank)[1]
  if not fits(#item) then break end
  found[#found + 1] = item
end
if #found == known then
  local newest = tonumber(call('ZREVRANGE', @taken(), 0, 0, 'WITHSCORES')[2] or 0)
  for number = known + 1, wanted do
    local item = call('LINDEX', @incoming(), -1)
    if item and #item > most then long = item end
    if not item or long or not fits(#item) then break end
    newest = newest + 1
    found[number] = ARGV[first + number] .. ' ' .. item
    call('ZADD', @taken(), newest, found[number])
    call('RPOP', @incoming())
  end
end
if #found > 0 then write_something(@taken()) end
local count = call('LLEN', @incoming()) + call('ZCARD', @taken())
return {count, long and #long or 0, long and string.sub(long, 1, tonumber(ARGV[4])) or '', unpack(found)}

-- script: take_incoming
-- What came in from outside: each item leaves the list in the same step in which it takes effect.
-- ARGV   3 the items (MessagePack, oldest first: {number of the argument with the item as it was read,
--        kind, what}); kinds: 'task' (a group of one, see lib/submit.lua), 'change' (a group of one, see
--        lib/change.lua), 'refused' ({the item as it is shown, why}), 'done' (nothing is left to do); the rest:
--        items, and values kept apart
-- returns {how many were taken: it ends at the first item that is not what was read, or whose change
--         does not apply any more; values, kept apart: the tasks that were there under the ids of others; number of
--         an item, why it was refused here, …}
-- include: accept, change, answer

-- As much of an item as is kept; not in the midst of a letter.
local SHOWN = 10000
local function beginning(text)
  if #text <= SHOWN then return text end
  return (string.gsub(string.sub(text, 1, SHOWN), '[\194-\244][\128-\191]*$', ''))
end

-- Why it is not accepted, if it is another's id or word; nil if it is the task that is there.
local function explain_refusal(group, entry, how)
  local id = group[@G_IDS][1]
  if how == 2 then
    return "task '" .. id .. "' has been here and was deleted: give the item another id, or wait until this one is forgotten"
  elseif how == 1 and entry.r[@ID] ~= id then
    return "its unique word '" .. entry.r[@UNIQUE] .. "' is held by task '" .. entry.r[@ID] .. "'"
  end
end

local taken, there, refused = 0, {}, {}
for _, item in ipairs(cmsgpack.unpack(ARGV[3])) do
  local text, kind, what = ARGV[item[1]], item[2], item[3]
  if call('LINDEX', @incoming(), -1) ~= text then break end
  if kind == 'task' then
    local entry, how = accept(what, 1)
    local why = explain_refusal(what, entry, how)
    if why then
      refuse(@refused(), beginning(text), why)
      refused[#refused + 1], refused[#refused + 2] = taken, why
    elseif how == 1 then
      there[#there + 1] = entry
    end
  elseif kind == 'refused' then
    refuse(@refused(), what[1], what[2])
  elseif kind == 'change' and not apply_one(what) then
    break
  end
  call('RPOP', @incoming())
  taken = taken + 1
end
flush()
local values, apart = values_of(there)
return {taken, values, apart, refused}

-- script: refuse_long
-- The next item that came in from outside is longer than any task: it goes, without anybody having read it.
-- ARGV   3 its length, 4 its beginning, 5 what of it is shown, 6 why it was of no use
-- returns 1, or 0 if another is the next

local item, beginning = call('LINDEX', @incoming(), -1), ARGV[4]
if not item or #item ~= tonumber(ARGV[3]) or string.sub(item, 1, #beginning) ~= beginning then return 0 end
call('LTRIM', @incoming(), 0, -2)
refuse(#KEYS > 0 and @unfit() or @refused(), ARGV[5], ARGV[6])
return 1

-- script: incoming_done
-- Cluster: items that came in from outside have taken effect, or were of no use.
-- ARGV   the rest: `id item`, the item as it is shown, why it was of no use or '', …
-- returns nothing

for number = 3, #ARGV, 3 do
  local item, why = ARGV[number + 1], ARGV[number + 2]
  if call('ZREM', @taken(), ARGV[number]) == 1 and why ~= '' then
    refuse(@unfit(), item, why)
  end
end
return false
