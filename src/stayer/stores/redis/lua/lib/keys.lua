-- What all keys are made with (see keys.py).

local PREFIX = ARGV[1]

-- A queue's name as it stands between braces.
local function tag(queue)
  if not string.find(queue, '[%%{}]') then return queue end
  return (string.gsub(queue, '[%%{}]', {['%'] = '%25', ['{'] = '%7B', ['}'] = '%7D'}))
end
