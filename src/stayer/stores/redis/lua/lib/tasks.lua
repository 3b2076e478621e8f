-- Writing tasks that were changed, with all that follows from the change.
-- include: events, indexes

local write_notices -- by lib/notices.lua, for scripts that may have some to write

local function write_values(pairs_of)
  for first = 1, #pairs_of, @ARGUMENTS_AT_ONCE do
    call('MSET', unpack(pairs_of, first, math.min(first + @ARGUMENTS_AT_ONCE - 1, #pairs_of)))
  end
end

local function write_records()
  local pairs_of, count = {}, 0
  for _, entry in ipairs(touched) do
    if not entry.gone then
      local head, own, kind = pack_record(entry)
      entry.value = head .. own .. kind .. entry.history
      pairs_of[count + 1], pairs_of[count + 2] = @task(entry.r[@ID]), entry.value
      count = count + 2
    end
    if entry.others then write_values(entry.others.pairs_of) end
    entry.touched, entry.popped, entry.others = false, false, nil
  end
  write_values(pairs_of)
end

-- Write all that was changed; entries can be read and changed again afterwards.
local function flush()
  if #touched > 0 then
    -- Only what is in an index can stop at a key of another type. Then no record says that something was done, and it
    -- can be done again: what was written to indexes up to there is written once more.
    write_indexes()
    write_records()
    touched = {}
    if write_notices then write_notices() end
  end
  tell_all()
end
