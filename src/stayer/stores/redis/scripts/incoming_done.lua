-- Cluster: items that came in from outside have taken effect, or were of no use.
-- ARGV   the rest: `id item`, the item as it is shown, why it was of no use or '', …
-- returns nothing
-- needs: base, refuse

for number = 3, #ARGV, 3 do
  local item, why = ARGV[number + 1], ARGV[number + 2]
  if call('ZREM', key_taken(), ARGV[number]) == 1 and why ~= '' then
    refuse(key_unfit(), item, why)
  end
end
return false
