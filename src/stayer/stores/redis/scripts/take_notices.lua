-- Store.take_notices: those that are due, for one who will deliver them.
-- ARGV   3 limit, 4 for how many seconds they are this one's, 5 after how many a pending one of another
--        hook should have been tried, 6 what is said of it then; the rest: names of hooks, '' for all that go to a URL
-- returns {id, its hash as a list} of each
-- needs: base

local hooks, lists = {}, {key_notices('pending'), key_notices('delivered'), key_notices('failed')}
for number = 7, #ARGV do
  hooks[ARGV[number]] = true
  lists[#lists + 1] = key_notices_due(ARGV[number])
end
-- As it is mostly; all who could deliver ask every few seconds.
if call('EXISTS', unpack(lists)) == 0 then return {} end

-- needs: delivery

local AT_ONCE = 100
local limit, lease, age = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function old(state, before)
  return call('ZRANGEBYLEX', key_notices(state), '-', '(' .. notice_place(before, ''), 'LIMIT', 0, AT_ONCE)
end

-- How long it has been due counts, not how old it is: it may have been retried, or be under way.
for _, place in ipairs(old('pending', math.max(0, now - age))) do
  local id = string.sub(place, 17)
  local notice = known_notice(id)
  if not notice.state then
    call('ZREM', key_notices('pending'), place)
  elseif not hooks[hook_of(notice.to)] and tonumber(notice.next) < now - age then
    move_notice(id, notice, 'failed', nil, ARGV[6])
  end
end
for _, state in ipairs({'delivered', 'failed'}) do
  for _, place in ipairs(old(state, math.max(0, now - NOTICES_KEPT))) do
    local id = string.sub(place, 17)
    local notice = known_notice(id)
    if notice.state then drop_notice(id, notice) else call('ZREM', key_notices(state), place) end
  end
end

local due = {}
for hook in pairs(hooks) do
  local found = call('ZRANGEBYSCORE', key_notices_due(hook), '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, limit)
  for number = 1, #found, 2 do
    if call('EXISTS', key_notice(found[number])) == 1 then
      due[#due + 1] = {tonumber(found[number + 1]), found[number]}
    else
      call('ZREM', key_notices_due(hook), found[number])
    end
  end
end
table.sort(due, function(one, other)
  if one[1] ~= other[1] then return one[1] < other[1] end
  return one[2] < other[2]
end)

local taken = {}
for number = 1, math.min(limit, #due) do
  local id = due[number][2]
  call('HINCRBY', key_notice(id), 'tries', 1)
  move_notice(id, known_notice(id), 'pending', now + lease)
  taken[number] = {id, call('HGETALL', key_notice(id))}
end
return taken
