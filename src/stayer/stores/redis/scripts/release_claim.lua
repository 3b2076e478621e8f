-- Cluster: nothing comes of a claim that belongs to a plan.
-- ARGV   3 the id, 4 the nonce of the claim
-- returns 1 if it was this claim, else 0
-- needs: base

local nonce, plan = unpack(call('HMGET', key_claim(ARGV[3]), 'nonce', 'plan'))
if nonce ~= ARGV[4] or not plan then return 0 end
return call('DEL', key_claim(ARGV[3]))
