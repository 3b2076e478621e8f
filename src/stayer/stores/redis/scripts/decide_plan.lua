-- Cluster: decide, once, what becomes of a plan.
-- ARGV   3 the name, 4 its nonce, 5 `go` or `undone`
-- returns what was decided; `gone` if it is not there
-- to be confirmed by replicas: what was accepted must not get lost
-- needs: base

local key = key_plan(ARGV[3])
local nonce, status = unpack(call('HMGET', key, 'nonce', 'status'))
if nonce ~= ARGV[4] then return 'gone' end
if status ~= 'open' then
  write_something(key)
  return status
end
call('HSET', key, 'status', ARGV[5])
return ARGV[5]
