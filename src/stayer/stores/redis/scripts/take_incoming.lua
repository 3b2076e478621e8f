-- What came in from outside: each item leaves the list in the same step in which it takes effect.
-- ARGV   3 the items (MessagePack, oldest first: {number of the argument with the item as it was read,
--        kind, what}); kinds: 'task' (a group of one, see lib/submit.lua), 'change' (a group of one, see
--        lib/change.lua), 'refused' ({the item as it is shown, why}), 'done' (nothing is left to do); the rest:
--        items, and values kept apart
-- returns {how many were taken: it ends at the first item that is not what was read, or whose change
--         does not apply any more; values, kept apart: the tasks that were there under the ids of others; number of
--         an item, why it was refused here, …}
-- needs: base, refuse, record, lines, tasks, alike, ends, unique, accept, delivery, notices, change

-- As much of an item as is kept; not in the midst of a letter.
local SHOWN = 10000
local function beginning(text)
  if #text <= SHOWN then return text end
  return (string.gsub(string.sub(text, 1, SHOWN), '[\194-\244][\128-\191]*$', ''))
end

-- Why it is not accepted, if it is another's id or word; nil if it is the task that is there.
local function kept_out(group, entry, how)
  local id = group[G_IDS][1]
  if how == 2 then
    return "task '" .. id .. "' has been here and was deleted: give the item another id, or wait until this one is forgotten"
  elseif how == 1 and entry.r[ID] ~= id then
    return "its unique word '" .. entry.r[UNIQUE] .. "' is held by task '" .. entry.r[ID] .. "'"
  end
end

local taken, there, refused = 0, {}, {}
for _, item in ipairs(cmsgpack.unpack(ARGV[3])) do
  local text, kind, what = ARGV[item[1]], item[2], item[3]
  if call('LINDEX', key_incoming(), -1) ~= text then break end
  if kind == 'task' then
    local entry, how = accept(what, 1)
    local why = kept_out(what, entry, how)
    if why then
      refuse(key_refused(), beginning(text), why)
      refused[#refused + 1], refused[#refused + 2] = taken, why
    elseif how == 1 then
      there[#there + 1] = entry
    end
  elseif kind == 'refused' then
    refuse(key_refused(), what[1], what[2])
  elseif kind == 'change' and not apply_one(what) then
    break
  end
  call('RPOP', key_incoming())
  taken = taken + 1
end
flush()
local values, apart = shown(there)
return {taken, values, apart, refused}
