-- What a shard of a cluster says to others of tasks that run after each other.

-- script: listen
-- Cluster: let another shard hear of the ends of tasks in this one, and see how they are.
-- ARGV   3 its queue; the rest: id, whether it may still have to come (1 or 0), …
-- returns the state of each, or the one in which it was purged, or nil
-- to be confirmed by replicas: what waits must hear of it
-- include: tasks, ends

local found = {}
for number = 4, #ARGV, 2 do
  local id = ARGV[number]
  local entry = fetch(id)
  if entry or ARGV[number + 1] == '1' then
    call('HSET', @listeners(id), '@' .. ARGV[3], 1)
    call('HINCRBY', @listeners(id), 'heard', 1)
  end
  if entry and not entry.r[@DEPENDENTS] then
    touch(entry)
    entry.r[@DEPENDENTS] = true
  end
  found[#found + 1] = known_state(id) or false
end
flush()
return found

-- script: known_states
-- Cluster: how tasks are that others wait for in other shards.
-- ARGV   the rest: ids
-- returns the state of each, or the one in which it was purged, or nil
-- only reads
-- include: ends

local found = {}
for number = 3, #ARGV do found[#found + 1] = known_state(ARGV[number]) or false end
return found

-- script: look_again
-- Cluster: something has become of tasks in another shard that tasks of this one may wait for.
-- ARGV   the rest: id, whether it is gone (1 or 0), …
-- returns how many notes of ends there are now
-- include: ends

for number = 3, #ARGV, 2 do
  local id = ARGV[number]
  if call('EXISTS', @waiters(id)) == 1 then note_unknown(id) end
  if ARGV[number + 1] == '1' then call('UNLINK', @dependents(id)) end
end
return open_notes()

-- script: passed_on
-- Cluster: all shards that listen have been told of these ends.
-- ARGV   the rest: id, the note that was seen, …
-- returns how many notes of ends there are now
-- include: ends

for number = 3, #ARGV, 2 do
  local id = ARGV[number]
  if call('HGET', @afar(), id) == ARGV[number + 1] then
    call('HDEL', @afar(), id)
    if call('EXISTS', @task(id)) == 0 then call('DEL', @listeners(id)) end
  end
end
return open_notes()

-- script: asked
-- Cluster: some of the tasks that are to be forgotten unless others in other shards need them.
-- ARGV   3 how many
-- returns {id, how many have listened to it, queues …} of each
-- include: base

local found = {}
for number, id in ipairs(call('SPOP', @asked(), ARGV[3])) do
  local fields = call('HGETALL', @listeners(id))
  local one = {id, '0'}
  for at = 1, #fields, 2 do
    if fields[at] == 'heard' then one[2] = fields[at + 1] end
    if string.sub(fields[at], 1, 1) == '@' then one[#one + 1] = string.sub(fields[at], 2) end
  end
  found[number] = one
end
return found

-- script: needed
-- Cluster: which of these tasks of another shard are needed by one here that has not ended.
-- ARGV   the rest: ids
-- returns their ids
-- only reads
-- include: dependents

local found = {}
for number = 3, #ARGV do
  if is_awaited(ARGV[number]) then found[#found + 1] = ARGV[number] end
end
return found

-- script: free
-- Cluster: no other shard needs these tasks, as long as no more listen to them; believed for a minute.
-- ARGV   the rest: id, how many had listened to it before the others were asked, …
-- returns nothing
-- include: base

local BELIEVED = 60
for number = 3, #ARGV, 2 do
  local key = @listeners(ARGV[number])
  if call('EXISTS', key) == 1 then call('HSET', key, 'free', ARGV[number + 1], 'until', exact(now + BELIEVED)) end
end
return false
