-- How many more tasks of a queue may begin now: its limit and its rate.
-- include: settings

local function running_now(queue)
  return call('SCARD', @state(queue, 'reserved')) + call('SCARD', @state(queue, 'started'))
end

-- How many tasks a queue's rate lets begin now: as `Bucket.level` in core/ordering/rate_limit.py.
local function rate_level(settings)
  local count = tonumber(settings.rate)
  if not settings.tokens_at or settings.tokens_at - now > tonumber(settings.rate_per) then return count end
  local refill = math.max(0, now - settings.tokens_at) * count / settings.rate_per
  return math.min(count, settings.tokens + refill)
end
local ALMOST = 0.000001

local function room(queue, enough)
  local settings = settings_of(queue)
  if settings.paused then return 0 end
  if settings.rate then enough = math.min(enough, math.floor(rate_level(settings) + ALMOST)) end
  if not settings.limit then return enough end
  return math.min(enough, settings.limit - running_now(queue))
end
