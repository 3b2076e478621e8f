-- Cluster: the claim on an id.
-- ARGV   3 the id
-- returns {queue or nil, nonce, task or nil, plan or nil}
-- needs: base

return call('HMGET', key_claim(ARGV[3]), 'queue', 'nonce', 'task', 'plan')
