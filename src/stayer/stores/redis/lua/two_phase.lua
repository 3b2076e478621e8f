-- Tasks of several shards that come all or none: a plan is laid, decided, and ended.

-- script: lay_plan
-- Cluster: begin to submit tasks that come all or none, unless somebody is doing that under this name.
-- ARGV   3 the name, 4 a nonce, 5 what it is about (MessagePack)
-- returns nil, or the plan that is there: {nonce, status, what it is about}
-- include: base

local key = @plan(ARGV[3])
local there = call('HMGET', key, 'nonce', 'status', 'about')
if there[1] then return there end
call('HSET', key, 'nonce', ARGV[4], 'status', 'open', 'about', ARGV[5])
return false

-- script: stir_plan
-- Cluster: a plan that is not decided yet shows a sign of life.
-- ARGV   3 the name, 4 its nonce
-- returns 1, or 0 if it is over, or decided
-- include: base

local key = @plan(ARGV[3])
local nonce, status = unpack(call('HMGET', key, 'nonce', 'status'))
if nonce ~= ARGV[4] or status ~= 'open' then return 0 end
call('HINCRBY', key, 'signs', 1)
return 1

-- script: decide_plan
-- Cluster: decide, once, what becomes of a plan.
-- ARGV   3 the name, 4 its nonce, 5 `go` or `undone`
-- returns what was decided; `gone` if it is not there
-- to be confirmed by replicas: what was accepted must not get lost
-- include: empty_writes

local key = @plan(ARGV[3])
local nonce, status = unpack(call('HMGET', key, 'nonce', 'status'))
if nonce ~= ARGV[4] then return 'gone' end
if status ~= 'open' then
  write_something(key)
  return status
end
call('HSET', key, 'status', ARGV[5])
return ARGV[5]

-- script: end_plan
-- Cluster: all that was decided is done.
-- ARGV   3 the name, 4 its nonce
-- returns 1 if it was this plan, else 0
-- include: base

if call('HGET', @plan(ARGV[3]), 'nonce') ~= ARGV[4] then return 0 end
return call('DEL', @plan(ARGV[3]))

-- script: promise
-- Cluster: keep unique words for tasks that come all or none.
-- ARGV   3 the nonce of their claims, 4 the queue; the rest: id, word, …
-- returns nil, or {task, its holder} of one whose word is held, or {task, its holder, the promise} of one whose word
--         is promised
-- include: unique

for number = 5, #ARGV, 2 do
  local id, word = ARGV[number], ARGV[number + 1]
  local holder = holder_of(ARGV[4], word, id)
  if holder then return {id, holder.r[@ID]} end
  local other = call('HGET', @promised(), word)
  if other then
    local nonce, name = string.match(other, '^(%S+) (.*)$')
    if nonce ~= ARGV[3] or name ~= id then return {id, name, nonce} end
  end
  call('HSET', @promised(), word, ARGV[3] .. ' ' .. id)
end
return false

-- script: break_promise
-- Cluster: give back what was promised to claims with this nonce.
-- ARGV   3 the nonce; the rest: words
-- returns nothing
-- include: base

for number = 4, #ARGV do
  local promise = call('HGET', @promised(), ARGV[number])
  if promise and string.match(promise, '^%S+') == ARGV[3] then call('HDEL', @promised(), ARGV[number]) end
end
return false
