-- What every script begins with. How scripts are put together: see scripts.py. All functions are made anew at each
-- call: so a script includes no more than it uses, and where the usual case needs few, it includes the rest further
-- down, behind what that returns.
--
-- KEYS   none: a script names its keys itself, which a single server allows. In a shard of a cluster one that is
--        never there, which says where it is
-- ARGV   1 the prefix of all keys; 2 the time, or '' for the server's own; the rest is the script's
-- include: keys

local call = redis.call

local now
if ARGV[2] == '' then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
else
  now = tonumber(ARGV[2])
end

-- A number as text, without loss; most are the time, which is written once.
local NOW = string.format('%.17g', now)
local function exact(number)
  if number == now then return NOW end
  return string.format('%.17g', number)
end

-- In a shard of a cluster, for those who listen at its node.
local function publish(channel, text) call(#KEYS > 0 and 'SPUBLISH' or 'PUBLISH', channel, text) end

-- There may be something to take in a queue. Databases of one server share its channels, so the message says whose it is
-- as far as that is known; a cluster has one database.
local function publish_wake(queue, number)
  local identity = #KEYS == 0 and call('HGET', @meta(), 'identity')
  publish(@wake(queue), identity and number .. ' ' .. identity or number)
end
