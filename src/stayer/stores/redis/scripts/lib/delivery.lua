-- Notices on their way. One is a hash: task, queue, event, to, attempt, at, state, tries, forgiven and
-- since (once it was retried), next, said, record (the task's as it was, without its history), and parameters and
-- result if these are kept apart and short.

-- Where it stands in lists.
local function notice_place(at, id) return string.format('%016.0f', math.floor(at * 1000000 + 0.5)) .. id end

-- The name of the hook; nothing if it is a URL.
local function hook_of(target) return string.find(target, '://', 1, true) and '' or target end

-- task, to, at, state, tries, forgiven, next; the state is nil if there is no such notice.
local function known_notice(id)
  local said = call('HMGET', key_notice(id), 'task', 'to', 'at', 'state', 'tries', 'next', 'forgiven')
  return {task = said[1], to = said[2], at = said[3], state = said[4] or nil, tries = said[5], next = said[6],
          forgiven = said[7] or '0'}
end

-- following: when it is to be tried, if it is pending
local function move_notice(id, notice, state, following, said)
  local place = notice_place(tonumber(notice.at), id)
  call('ZREM', key_notices(notice.state), place)
  call('ZADD', key_notices(state), 0, place)
  call('HSET', key_notice(id), 'state', state)
  if said then call('HSET', key_notice(id), 'said', said) end
  if state == 'pending' then
    call('HSET', key_notice(id), 'next', exact(following))
    call('ZADD', key_notices_due(hook_of(notice.to)), exact(following), id)
  else
    call('HDEL', key_notice(id), 'next')
    call('ZREM', key_notices_due(hook_of(notice.to)), id)
  end
end

local function drop_notice(id, notice)
  local place = notice_place(tonumber(notice.at), id)
  call('ZREM', key_notices(notice.state), place)
  call('ZREM', key_notices_of(notice.task), place)
  call('ZREM', key_notices_due(hook_of(notice.to)), id)
  call('DEL', key_notice(id))
end
