-- What every script begins with. The loader (scripts.py) puts the libraries that a script or a library names in the
-- place of its line `-- needs:`, each once, keys in the place of calls key_…(…) (see keys.py), and the numbers of the
-- record's fields in the place of their names. All functions are made anew at each call: where the usual case needs
-- few, a script has a second such line further down.
--
-- KEYS   none: a script names its keys itself, which a single server allows. In a shard of a cluster one that is
--        never there, which says where it is
-- ARGV   1 the prefix of all keys; 2 the time, or '' for the server's own; the rest is the script's

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

-- A server whose memory is full refuses a script only at its first write, if that could need some. A script that is to
-- be done all the same begins with a write that needs none: no task has an empty id.
local function whatever_memory_is_left() call('UNLINK', key_task('')) end

-- Replicas confirm what a script writes, and with it all that was written before. A script that answers for what
-- another has written, which they may not have yet, has to write something too: this changes nothing.
local function write_something(key)
  local left = call('PTTL', key)
  if left >= 0 then call('PEXPIRE', key, math.max(1, left)) end
  if left == -1 then
    call('PEXPIRE', key, 86400000)
    call('PERSIST', key)
  end
end

-- In a shard of a cluster, for those who listen at its node.
local function publish(channel, text) call(#KEYS > 0 and 'SPUBLISH' or 'PUBLISH', channel, text) end

-- There may be something to take in a queue. Databases of one server share its channels, so the message says whose it is
-- as far as that is known; a cluster has one database.
local function publish_wake(queue, number)
  local identity = #KEYS == 0 and call('HGET', key_meta(), 'identity')
  publish(key_wake(queue), identity and number .. ' ' .. identity or number)
end

-- unpack() takes no more than some thousands at once: call the command for a part at a time.
local PART = 2000
local function in_parts(command, key, arguments)
  local count = #arguments
  if count <= PART then
    if count > 0 then call(command, key, unpack(arguments)) end
    return
  end
  for first = 1, count, PART do
    call(command, key, unpack(arguments, first, math.min(first + PART - 1, count)))
  end
end
