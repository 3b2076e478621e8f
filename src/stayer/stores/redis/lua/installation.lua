-- What a store is, and what may be done there.

-- script: setup
-- Note which version of the key map is in use, and answer it.
-- ARGV   3 the version that this Stayer makes
-- returns the version that is there
-- include: base

if call('HEXISTS', @meta(), 'schema') == 0 then call('HSET', @meta(), 'schema', ARGV[3]) end
return call('HGET', @meta(), 'schema')

-- script: identity
-- What tells this store from any other: made when it is first asked for.
-- ARGV   3 a name at random, should there be none yet
-- returns the name that is there
-- include: empty_writes
-- to be confirmed by replicas: a worker goes by it for ever

whatever_memory_is_left() -- a worker that can't begin can't empty a full server either
if call('HEXISTS', @meta(), 'identity') == 0 then call('HSET', @meta(), 'identity', ARGV[3]) end
return call('HGET', @meta(), 'identity')

-- script: record_once
-- Store.record_once: what servers share.
-- ARGV   3 the key, 4 the value, 5 for how many milliseconds
-- returns the value that is there
-- include: empty_writes
-- to be confirmed by replicas: others answer by it

local key = @once(ARGV[3])
local there = call('GET', key)
if not there then
  call('SET', key, ARGV[4], 'PX', ARGV[5])
  return ARGV[4]
end
if there == ARGV[4] then call('PEXPIRE', key, ARGV[5]) else write_something(key) end
return there

-- script: put_shared
-- Store.put_shared: what servers share by name.
-- ARGV   3 the name, 4 the value, 5 the one that is known to be there, or ''
-- returns 1 if it is there now, 0 if another one was
-- include: base
-- to be confirmed by replicas: who was shut out is to stay so

if (call('HGET', @meta(), ARGV[3]) or '') ~= ARGV[5] then return 0 end
call('HSET', @meta(), ARGV[3], ARGV[4])
return 1

-- script: rights
-- What the user may not do of all that scripts do. Whoever is refused something in the midst of a script leaves half of
-- a change behind: so it is tried before.
-- returns the commands that were refused
-- include: base

local here = @rights()
local TRIALS = {
  {'SET', here, 1}, {'GET', here}, {'STRLEN', here}, {'GETRANGE', here, 0, 0}, {'EXISTS', here}, {'EXPIRE', here, 60}, {'PEXPIRE', here, 60000},
  {'PTTL', here}, {'TYPE', here}, {'RENAME', here, here}, {'PERSIST', here}, {'INCR', here}, {'DEL', here}, {'MSETNX', here, 1}, {'MSET', here, 1}, {'MGET', here},
  {'UNLINK', here},
  {'HSET', here, 'a', 1}, {'HINCRBY', here, 'a', 1}, {'HGET', here, 'a'}, {'HMGET', here, 'a'}, {'HGETALL', here},
  {'HKEYS', here}, {'HVALS', here}, {'HLEN', here}, {'HEXISTS', here, 'a'}, {'HRANDFIELD', here, 1}, {'HDEL', here, 'a'},
  {'RPUSH', here, 1}, {'LPUSH', here, 1}, {'LINDEX', here, 0}, {'LLEN', here}, {'LRANGE', here, 0, 0},
  {'LTRIM', here, 0, 0}, {'RPOP', here},
  {'SADD', here, 1}, {'SCARD', here}, {'SISMEMBER', here, 1}, {'SMEMBERS', here}, {'SRANDMEMBER', here, 1},
  {'SREM', here, 2}, {'SPOP', here, 1},
  {'ZADD', here, 0, 1}, {'ZCARD', here}, {'ZCOUNT', here, 0, 0}, {'ZLEXCOUNT', here, '-', '+'}, {'ZRANGE', here, 0, 0},
  {'ZRANGEBYLEX', here, '-', '+'}, {'ZREVRANGEBYLEX', here, '+', '-'}, {'ZRANGEBYSCORE', here, 0, 0},
  {'ZREVRANGE', here, 0, 0}, {'ZSCORE', here, 1}, {'ZREM', here, 2}, {'ZREMRANGEBYRANK', here, 1, 1}, {'ZREMRANGEBYSCORE', here, 0, 0},
  {'XADD', here, '*', 'a', 1}, {'XRANGE', here, '-', '+'}, {'XREVRANGE', here, '+', '-', 'COUNT', 1}, {'UNLINK', here},
  {'PUBSUB', 'NUMSUB', here}, {#KEYS > 0 and 'SPUBLISH' or 'PUBLISH', here, ''},
}

-- By versions: up to 7.0, after that, and those that tell it as outside of scripts.
local WORDS = {'user executing the script', 'ACL failure', 'NOPERM'}

local refused = {}
for _, trial in ipairs(TRIALS) do
  local answer = redis.pcall(unpack(trial))
  for _, words in ipairs(WORDS) do
    if type(answer) == 'table' and answer.err and string.find(answer.err, words, 1, true) then
      refused[#refused + 1] = trial[1]
      break
    end
  end
end
return refused

-- script: sound
-- Cluster: does what is written here reach replicas?
-- returns nothing
-- to be confirmed by replicas: that is the question
-- include: empty_writes

write_something(@last())
return false

-- script: enlist
-- Cluster: write names down in a set that others go by.
-- ARGV   3 which one (shards, shards_copy, plans, declaring_lost, homes), 4 the worker whose homes they are, the number of the
--        copy, or ''; the rest: names
-- returns how many are new
-- to be confirmed by replicas: what is not written down is not looked for
-- include: empty_writes

local sets = {
  shards = @shards(), shards_copy = @shards_copy(ARGV[4]), plans = @plans(), declaring_lost = @declaring_lost(),
  homes = @homes(ARGV[4]),
}
local name = sets[ARGV[3]]
local kind = call('TYPE', name).ok
-- Somebody else's: set aside, or nobody could write down anything here any more.
if kind ~= 'set' and kind ~= 'none' then call('RENAME', name, name .. ':damaged') end
local added = call('SADD', name, unpack(ARGV, 5))
if added == 0 then write_something(name) end
return added
