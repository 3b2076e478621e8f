-- What came in from outside, to be looked at: as much as is taken at once.
-- ARGV   3 how many items, 4 how many bytes one may have, and all of them, 5 how much is shown of a longer one
-- returns {items, the oldest first}; if a longer one comes next, also its length and its beginning
-- needs: base

local most = tonumber(ARGV[4])
local left, found = most, {}
for number = 1, tonumber(ARGV[3]) do
  local item = call('LINDEX', key_incoming(), -number)
  if not item then break end
  if #item > most then return {found, #item, string.sub(item, 1, tonumber(ARGV[5]))} end
  left = left - #item
  if left < 0 then break end
  found[number] = item
end
return {found}
