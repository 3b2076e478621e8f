-- Cluster: the task of a claim is gone, so the claim may go when nobody remembers the id.
-- ARGV   3 the id, 4 the nonce that was seen while the task was there
-- returns 1, or 0 if the claim is another one by now
-- needs: base

local key = key_claim(ARGV[3])
if call('HGET', key, 'nonce') ~= ARGV[4] then return 0 end
return call('EXPIRE', key, REMEMBERED)
