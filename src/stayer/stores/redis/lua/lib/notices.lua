-- What is to be told to somebody outside: noted while a script changes tasks, written with them. See
-- lib/notice.lua for what is kept.
-- include: tasks, notice

local function target_of(hook, happened)
  local words, target = string.match(hook, '^([^:]+):(.*)$')
  for word in string.gmatch(words or '', '[^,]+') do
    for _, each in ipairs(happened) do
      if each == word then return target end
    end
  end
  return nil
end

local noticed = {}

-- Those who want to hear of what happened to a task, by its own hooks or its queue's, are to be told.
local function note_notices(entry, happened, number)
  local targets, known = {}, {}
  local function look(hook)
    local target = target_of(hook, happened)
    if target and not known[target] then
      known[target] = true
      targets[#targets + 1] = target
    end
  end
  for _, hook in ipairs(entry.r[@NOTIFY] or {}) do look(hook) end
  for hook in string.gmatch(settings_of(entry.r[@QUEUE]).notify or '', '[^\n]+') do look(hook) end
  if #targets > 0 then noticed[#noticed + 1] = {entry, happened[1], number, targets} end
end

local function copy_if_small(key, is_apart)
  return is_apart and call('STRLEN', key) <= @FIELD_LIMIT and call('GET', key)
end

local function write_notice(entry, event, number, target)
  local r, value, hook = entry.r, entry.value, hook_of(target)
  local text = r[@ID] .. '\n' .. NOW .. '\n' .. string.format('%.0f', number) .. '\n' .. target
  local id = string.sub(redis.sha1hex(text), 1, 24)
  local _, record_end = ends_of(value)
  local record = string.sub(value, 1, record_end)
  call('HSET', @notice(id), 'task', r[@ID], 'queue', r[@QUEUE], 'event', event, 'to', target, 'attempt', r[@ATTEMPT],
       'at', NOW, 'state', 'pending', 'tries', 0, 'next', NOW, 'record', record)
  local parameters = copy_if_small(@parameters(r[@ID]), bit.band(entry.flags, 3) ~= 0)
  if parameters then call('HSET', @notice(id), 'parameters', parameters) end
  local result = copy_if_small(@result(r[@ID]), bit.band(entry.flags, 12) ~= 0)
  if result then call('HSET', @notice(id), 'result', result) end
  call('ZADD', @notices('pending'), 0, notice_place(now, id))
  call('ZADD', @notices_of(r[@ID]), 0, notice_place(now, id))
  call('ZADD', @notices_due(hook), NOW, id)
end

write_notices = function()
  for _, each in ipairs(noticed) do
    for _, target in ipairs(each[4]) do write_notice(each[1], each[2], each[3], target) end
  end
  noticed = {}
end
