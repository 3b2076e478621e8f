-- Store.notices: a page, newest first.
-- ARGV   3 the task or '', 4 the state or '', 5 the place behind which to begin or '', 6 how many
-- returns {id, its hash as a list} of each
-- needs: base

local task, state, limit = ARGV[3], ARGV[4], tonumber(ARGV[6])
local from = ARGV[5] == '' and '+' or '(' .. ARGV[5]

local keys = {key_notices('pending'), key_notices('delivered'), key_notices('failed')}
if task ~= '' then keys = {key_notices_of(task)} elseif state ~= '' then keys = {key_notices(state)} end
-- Of one task all are read: it has few, and they are not kept by state.
local places = {}
for _, key in ipairs(keys) do
  local found = call('ZREVRANGEBYLEX', key, from, '-', 'LIMIT', 0, task ~= '' and -1 or limit)
  for _, place in ipairs(found) do places[#places + 1] = place end
end
table.sort(places, function(one, other) return one > other end)

local found = {}
for _, place in ipairs(places) do
  if #found == limit then break end
  local id = string.sub(place, 17)
  if task == '' or state == '' or call('HGET', key_notice(id), 'state') == state then
    local said = call('HGETALL', key_notice(id))
    if #said > 0 then found[#found + 1] = {id, said} end
  end
end
return found
