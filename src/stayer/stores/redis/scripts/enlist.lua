-- Cluster: write names down in a set that others go by.
-- ARGV   3 which one (shards, shards_copy, plans, burying, homes), 4 the worker whose homes they are, the number of the
--        copy, or ''; the rest: names
-- returns how many are new
-- to be confirmed by replicas: what is not written down is not looked for
-- needs: base

local sets = {
  shards = key_shards(), shards_copy = key_shards_copy(ARGV[4]), plans = key_plans(), burying = key_burying(),
  homes = key_homes(ARGV[4]),
}
local name = sets[ARGV[3]]
local kind = call('TYPE', name).ok
-- Somebody else's: set aside, or nobody could write down anything here any more.
if kind ~= 'set' and kind ~= 'none' then call('RENAME', name, name .. ':damaged') end
local added = call('SADD', name, unpack(ARGV, 5))
if added == 0 then write_something(name) end
return added
