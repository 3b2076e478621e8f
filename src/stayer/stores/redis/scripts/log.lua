-- Store.log: pieces of an attempt's log.
-- ARGV   3 the id, 4 the attempt, 5 the offset, 6 about how many bytes
-- returns {start, at, data, …}, the first piece may begin before the offset
-- needs: base

local key, start, limit = key_log(ARGV[4], ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
local from = string.format('(%.0f', start - LOG_PIECE)
local found, size, skipped = {}, 0, 0
while size < limit do
  local rows = call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', skipped, 16)
  for number = 1, #rows, 2 do
    local _, head, start_of, at = string.find(rows[number], '^(%d+):([^:]+):')
    if head and tonumber(at) then -- whatever else somebody put there is no piece of a log
      local data = string.sub(rows[number], head + 1)
      found[#found + 1] = start_of
      found[#found + 1] = at
      found[#found + 1] = data
      size = size + math.max(0, math.min(#data, rows[number + 1] + #data - start))
    end
    if size >= limit then break end
  end
  if #rows < 32 then break end
  skipped = skipped + 16
end
return found
