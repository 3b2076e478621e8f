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
      local head, own, kind = closed(entry)
      entry.value = head .. own .. kind .. entry.history
      pairs_of[count + 1], pairs_of[count + 2] = @task(entry.r[@ID]), entry.value
      count = count + 2
    end
    if entry.others then write_values(entry.others.pairs_of) end
  end
  write_values(pairs_of)
end

-- Write all that was changed; entries can be read and changed again afterwards.
local function flush()
  if #touched > 0 then
    write_records()
    write_indexes()
    touched = {}
    if write_notices then write_notices() end
  end
  tell_all()
end
