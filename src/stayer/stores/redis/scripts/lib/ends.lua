-- Ends that others wait for. On a cluster those may be in other queues, which this script can't see: their
-- shards are told to look again. A script that runs in a shard is given a key.

local IS_SHARD = #KEYS > 0

-- A value that no note has had before.
local function fresh_mark() return call('INCR', key_looks()) end

local function note_afar(id)
  if IS_SHARD and call('EXISTS', key_listeners(id)) == 1 then call('HSET', key_afar(), id, fresh_mark()) end
end

local function note_end(id, state)
  call('HSET', key_outbox(), id, state)
  note_afar(id)
end

-- One that is not here: gone, or in another shard, where somebody has to look.
local function note_unknown(id)
  call('HSET', key_outbox(), id, IS_SHARD and '?' .. fresh_mark() or 'cancelled')
end

-- The state of a task, or the one in which it was purged; nothing if nobody knows it.
local function known_state(id)
  local entry = fetch(id)
  if entry then return entry.r[STATE] end
  local left = call('GET', key_purged(id))
  left = left and cmsgpack.unpack(left)
  return left and left[5] > now - REMEMBERED and left[2] or nil
end

-- How many notes there are that somebody has to see to.
local function open_notes()
  return call('HLEN', key_outbox()) + (IS_SHARD and call('HLEN', key_afar()) or 0)
end
