-- Notices, as those see them who deliver them or look after them.

-- script: notices
-- Store.notices: a page, newest first.
-- ARGV   3 the task or '', 4 the state or '', 5 the place behind which to begin or '', 6 how many
-- returns {id, its hash as a list} of each
-- only reads
-- include: base

local task, state, limit = ARGV[3], ARGV[4], tonumber(ARGV[6])
local from = ARGV[5] == '' and '+' or '(' .. ARGV[5]

local keys = {@notices('pending'), @notices('delivered'), @notices('failed')}
if task ~= '' then keys = {@notices_of(task)} elseif state ~= '' then keys = {@notices(state)} end
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
  if task == '' or state == '' or call('HGET', @notice(id), 'state') == state then
    local fields = call('HGETALL', @notice(id))
    if #fields > 0 then found[#found + 1] = {id, fields} end
  end
end
return found

-- script: take_notices
-- Store.take_notices: those that are due, for one who will deliver them.
-- ARGV   3 limit, 4 for how many seconds they are this one's, 5 after how many a pending one of another
--        hook should have been tried, 6 what is said of it then; the rest: names of hooks, '' for all that go to a URL
-- returns {id, its hash as a list} of each
-- include: base

local hooks, lists = {}, {@notices('pending'), @notices('delivered'), @notices('failed')}
for number = 7, #ARGV do
  hooks[ARGV[number]] = true
  lists[#lists + 1] = @notices_due(ARGV[number])
end
-- As it is mostly; all who could deliver ask every few seconds.
if call('EXISTS', unpack(lists)) == 0 then return {} end
-- They are delivered from where the store has been moved to.
if string.find(call('GET', @last()) or '', '^sealed') then return {} end

-- include: delivery

local AT_ONCE = 100
local limit, lease, age = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function old(state, before)
  return call('ZRANGEBYLEX', @notices(state), '-', '(' .. notice_place(before, ''), 'LIMIT', 0, AT_ONCE)
end

-- How long it has been due counts, not how old it is: it may have been retried, or be under way.
for _, place in ipairs(old('pending', math.max(0, now - age))) do
  local id = string.sub(place, 17)
  local notice = known_notice(id)
  if not notice.state then
    call('ZREM', @notices('pending'), place)
  elseif not hooks[hook_of(notice.to)] and tonumber(notice.next) < now - age then
    move_notice(id, notice, 'failed', nil, ARGV[6])
  end
end
for _, state in ipairs({'delivered', 'failed'}) do
  for _, place in ipairs(old(state, math.max(0, now - @NOTICES_KEPT))) do
    local id = string.sub(place, 17)
    local notice = known_notice(id)
    if notice.state then drop_notice(id, notice) else call('ZREM', @notices(state), place) end
  end
end

local due = {}
for hook in pairs(hooks) do
  local found = call('ZRANGEBYSCORE', @notices_due(hook), '-inf', NOW, 'WITHSCORES', 'LIMIT', 0, limit)
  for number = 1, #found, 2 do
    if call('EXISTS', @notice(found[number])) == 1 then
      due[#due + 1] = {tonumber(found[number + 1]), found[number]}
    else
      call('ZREM', @notices_due(hook), found[number])
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
  call('HINCRBY', @notice(id), 'tries', 1)
  move_notice(id, known_notice(id), 'pending', now + lease)
  taken[number] = {id, call('HGETALL', @notice(id))}
end
return taken

-- script: add_notice
-- Store.add_notices: one that no change of a task brings, due now.
-- ARGV   3 id, 4 the task or '', 5 queue, 6 event, 7 to, 8 attempt, 9 when it happened, 10 what is told, as JSON
-- returns 1, or 0 if there is one of this id
-- include: delivery, events

last_number() -- before anything is written: the store may be sealed
local id, to = ARGV[3], ARGV[7]
local hook = hook_of(to)
if call('EXISTS', @notice(id)) == 1 then return 0 end
call('HSET', @notice(id), 'task', ARGV[4], 'queue', ARGV[5], 'event', ARGV[6], 'to', to, 'attempt', ARGV[8], 'at', ARGV[9],
     'state', 'pending', 'tries', 0, 'next', NOW, 'shown', ARGV[10])
local place = notice_place(tonumber(ARGV[9]), id)
call('ZADD', @notices('pending'), 0, place)
if ARGV[4] ~= '' then call('ZADD', @notices_of(ARGV[4]), 0, place) end
call('ZADD', @notices_due(hook), NOW, id)
return 1

-- script: settle_notice
-- Store.settle_notice: what came of a try.
-- ARGV   3 id, 4 the number of the try, 5 how many before it were forgiven, 6 the state it leads to, 7 after how
--        many seconds it is to be tried again, 8 what was said, 9 how many tries more are forgiven
-- returns 1, or 0 if it is not this one's to tell
-- include: delivery

local notice = known_notice(ARGV[3])
if notice.state ~= 'pending' or notice.tries ~= ARGV[4] then return 0 end
-- A failure says nothing of a retry that came meanwhile.
if ARGV[6] ~= 'delivered' and notice.forgiven ~= ARGV[5] then return 0 end
move_notice(ARGV[3], notice, ARGV[6], ARGV[7] ~= '' and now + ARGV[7], ARGV[8])
if ARGV[9] ~= '0' then call('HINCRBY', @notice(ARGV[3]), 'forgiven', ARGV[9]) end
return 1

-- script: retry_notices
-- Store.retry_notices: due now, as if they had not been tried.
-- ARGV   the rest: ids
-- returns how many
-- include: delivery

local count = 0
for number = 3, #ARGV do
  local notice = known_notice(ARGV[number])
  if notice.state and notice.state ~= 'delivered' then
    call('HSET', @notice(ARGV[number]), 'forgiven', notice.tries, 'since', NOW)
    move_notice(ARGV[number], notice, 'pending', now)
    count = count + 1
  end
end
return count

-- script: drop_notices
-- Store.drop_notices: forget them.
-- ARGV   the rest: ids
-- returns how many
-- include: delivery

local count = 0
for number = 3, #ARGV do
  local notice = known_notice(ARGV[number])
  if notice.state then
    drop_notice(ARGV[number], notice)
    count = count + 1
  end
end
return count
