-- Notices on their way (see notice.lua).
-- include: notice

-- task, to, at, state, tries, forgiven, next; the state is nil if there is no such notice.
local function known_notice(id)
  local fields = call('HMGET', @notice(id), 'task', 'to', 'at', 'state', 'tries', 'next', 'forgiven')
  return {task = fields[1], to = fields[2], at = fields[3], state = fields[4] or nil, tries = fields[5], next = fields[6],
          forgiven = fields[7] or '0'}
end

-- following: when it is to be tried, if it is pending
local function move_notice(id, notice, state, following, summary)
  local hook, place = hook_of(notice.to), notice_place(tonumber(notice.at), id)
  call('ZREM', @notices(notice.state), place)
  call('ZADD', @notices(state), 0, place)
  call('HSET', @notice(id), 'state', state)
  if summary then call('HSET', @notice(id), 'said', summary) end
  if state == 'pending' then
    call('HSET', @notice(id), 'next', exact(following))
    call('ZADD', @notices_due(hook), exact(following), id)
  else
    call('HDEL', @notice(id), 'next')
    call('ZREM', @notices_due(hook), id)
  end
end

local function drop_notice(id, notice)
  local hook, place = hook_of(notice.to), notice_place(tonumber(notice.at), id)
  call('ZREM', @notices(notice.state), place)
  call('ZREM', @notices_of(notice.task), place)
  call('ZREM', @notices_due(hook), id)
  call('DEL', @notice(id))
end
