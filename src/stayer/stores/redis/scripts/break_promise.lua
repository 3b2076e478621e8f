-- Cluster: give back what was promised to claims with this nonce.
-- ARGV   3 the nonce; the rest: words
-- returns nothing
-- needs: base

for number = 4, #ARGV do
  local promise = call('HGET', key_promised(), ARGV[number])
  if promise and string.match(promise, '^%S+') == ARGV[3] then call('HDEL', key_promised(), ARGV[number]) end
end
return false
