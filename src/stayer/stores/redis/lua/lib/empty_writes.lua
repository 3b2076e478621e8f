-- Writes that change nothing, for the sake of what a write brings with it.
-- include: base

-- A server whose memory is full refuses a script only at its first write, if that could need some. A script that is to
-- be done all the same begins with a write that needs none: no task has an empty id.
local function whatever_memory_is_left() call('UNLINK', @task('')) end

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
