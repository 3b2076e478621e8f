-- Cluster: all that was decided is done.
-- ARGV   3 the name, 4 its nonce
-- returns 1 if it was this plan, else 0
-- needs: base

if call('HGET', key_plan(ARGV[3]), 'nonce') ~= ARGV[4] then return 0 end
return call('DEL', key_plan(ARGV[3]))
