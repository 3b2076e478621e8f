-- Cluster: the task of a claim is there, so the claim need not keep it.
-- ARGV   3 the id, 4 the nonce of the claim
-- returns 1 if it was this claim, else 0
-- needs: base

local key = key_claim(ARGV[3])
if call('HGET', key, 'nonce') ~= ARGV[4] then return 0 end
call('HDEL', key, 'task', 'plan')
return 1
