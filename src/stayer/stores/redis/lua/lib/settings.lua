-- How a queue is set, read once.
-- include: base

local settings_of_queues = {}
local function settings_of(queue)
  local known = settings_of_queues[queue]
  if not known then
    local fields = call('HMGET', @queue(queue), 'paused', 'limit', 'lined', 'fair', 'key_limit', 'rate',
                      'rate_per', 'tokens', 'tokens_at', 'notify')
    known = {paused = fields[1] == '1', limit = fields[2], lined = fields[3] and true, fair = fields[4],
             key_limit = fields[5], rate = fields[6], rate_per = fields[7], tokens = fields[8], tokens_at = fields[9],
             notify = fields[10]}
    settings_of_queues[queue] = known
  end
  return known
end
