-- Note which version of the key map is in use, and answer it.
-- ARGV   3 the version that this Stayer makes
-- returns the version that is there
-- needs: base

call('HSETNX', key_meta(), 'schema', ARGV[3])
return call('HGET', key_meta(), 'schema')
