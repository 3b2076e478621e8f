-- What tells this store from any other: made when it is first asked for.
-- ARGV   3 a name at random, should there be none yet
-- returns the name that is there
-- needs: base
-- to be confirmed by replicas: a worker goes by it for ever

whatever_memory_is_left() -- a worker that can't begin can't empty a full server either
if call('HEXISTS', key_meta(), 'identity') == 0 then call('HSET', key_meta(), 'identity', ARGV[3]) end
return call('HGET', key_meta(), 'identity')
