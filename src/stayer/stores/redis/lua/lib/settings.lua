-- How a queue is set, read once.
-- include: base

local settings_of_queues = {}
local function settings_of(queue)
  local known = settings_of_queues[queue]
  if not known then
    local said = call('HMGET', @queue(queue), 'paused', 'limit', 'lined', 'fair', 'key_limit', 'rate',
                      'rate_per', 'tokens', 'tokens_at', 'notify')
    known = {paused = said[1] == '1', limit = said[2], lined = said[3] and true, fair = said[4],
             key_limit = said[5], rate = said[6], rate_per = said[7], tokens = said[8], tokens_at = said[9],
             notify = said[10]}
    settings_of_queues[queue] = known
  end
  return known
end
