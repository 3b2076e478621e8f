-- Store.attend: let the beats of these workers say that somebody watches.
-- ARGV   3 for how many seconds; the rest: workers
-- returns how many there are
-- needs: base

local known_workers = 0
for number = 4, #ARGV do
  local key = key_worker(ARGV[number])
  local known = call('HMGET', key, 'number', 'watched_until')
  if known[1] then
    known_workers = known_workers + 1
    local already = tonumber(known[2] or 0)
    call('HSET', key, 'watched_until', exact(math.max(already, now + ARGV[3])))
    if already < now then
      publish(key_orders(ARGV[number]), call('HINCRBY', key, 'wakes', 1))
    end
  end
end
return known_workers
