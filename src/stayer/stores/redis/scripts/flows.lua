-- Store.flows and Store.flow.
-- ARGV   3 the id of one, or '', 4 the cursor or '', 5 how many
-- returns {where to go on, or '' at the end, id, about it (JSON), its counts, …}
-- needs: base

local ids, following = {}, ''
if ARGV[3] ~= '' then
  if call('EXISTS', key_flow(ARGV[3])) == 1 then ids[1] = ARGV[3] end
else
  local upper = ARGV[4] ~= '' and '(' .. ARGV[4] or '+'
  local limit = tonumber(ARGV[5])
  local rows = call('ZREVRANGEBYLEX', key_flows(), upper, '-', 'LIMIT', 0, limit + 1)
  for number, member in ipairs(rows) do
    if number <= limit then ids[number] = string.sub(member, 17) end
  end
  if #rows > limit then following = rows[limit] end
end
local found = {following}
for _, id in ipairs(ids) do
  local about = call('GET', key_flow(id))
  if about then
    found[#found + 1] = id
    found[#found + 1] = about
    found[#found + 1] = call('HGETALL', key_parts(id))
  end
end
return found
