-- What the user may not do of all that scripts do. Whoever is refused something in the midst of a script leaves half of
-- a change behind: so it is tried before.
-- returns the commands that were refused
-- needs: base

local here = key_rights()
local TRIALS = {
  {'SET', here, 1}, {'GET', here}, {'STRLEN', here}, {'EXISTS', here}, {'EXPIRE', here, 60}, {'PEXPIRE', here, 60000},
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
