-- Store.figures: what was written down of a stretch of time.
-- ARGV   3 the length of a stretch, 4 the first, 5 the last, 6 'all' or 'these'; the rest: queues
-- returns {{at, queue, figures, …}, …}
-- needs: base

local found = {}
for at = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[3]) do
  local key = key_figures(ARGV[3], string.format('%.0f', at))
  local known = {}
  if ARGV[6] == 'all' then
    known = call('HGETALL', key)
  else
    for number = 7, #ARGV do
      local figures = call('HGET', key, ARGV[number])
      if figures then
        known[#known + 1] = ARGV[number]
        known[#known + 1] = figures
      end
    end
  end
  if #known > 0 then found[#found + 1] = {string.format('%.0f', at), known} end
end
return found
