-- Cluster: a plan that is not decided yet shows a sign of life.
-- ARGV   3 the name, 4 its nonce
-- returns 1, or 0 if it is over, or decided
-- needs: base

local key = key_plan(ARGV[3])
local nonce, status = unpack(call('HMGET', key, 'nonce', 'status'))
if nonce ~= ARGV[4] or status ~= 'open' then return 0 end
call('HINCRBY', key, 'signs', 1)
return 1
