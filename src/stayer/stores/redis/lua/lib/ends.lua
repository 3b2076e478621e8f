-- Ends that others wait for. On a cluster those may be in other queues, which this script can't see: their
-- shards are told to look again. A script that runs in a shard is given a key.
-- include: entries
-- scope

local IS_SHARD = #KEYS > 0

-- A value that no note has had before.
local function fresh_mark() return call('INCR', @looks()) end

local function note_afar(id)
  if IS_SHARD and call('EXISTS', @listeners(id)) == 1 then call('HSET', @afar(), id, fresh_mark()) end
end

local function note_end(id, state)
  call('HSET', @outbox(), id, state)
  note_afar(id)
end

-- One that is not here: gone, or in another shard, where somebody has to look.
local function note_unknown(id)
  call('HSET', @outbox(), id, IS_SHARD and '?' .. fresh_mark() or 'cancelled')
end

-- The state of a task, or the one in which it was purged; nothing if nobody knows it.
local function known_state(id)
  local entry = fetch(id)
  if entry then return entry.r[@STATE] end
  local left = call('GET', @purged(id))
  left = left and cmsgpack.unpack(left)
  return left and left[5] > now - @REMEMBERED and left[2] or nil
end

-- How many notes there are that somebody has to see to.
local function open_notes()
  return call('HLEN', @outbox()) + (IS_SHARD and call('HLEN', @afar()) or 0)
end
