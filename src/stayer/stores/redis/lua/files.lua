-- Files that come along with tasks: each once, by its sha256, and a sorted set of when somebody last put it.

-- script: put_file
-- Store.put_file.
-- ARGV   3 the sha256, 4 the bytes; without them, only if it is there
-- returns 1 if it is there now, else 0
-- to be confirmed by replicas: a task that was accepted needs it
-- include: base, events

last_number() -- before anything is written: the store may be sealed
if ARGV[4] then call('SET', @file(ARGV[3]), ARGV[4]) end
if call('EXISTS', @file(ARGV[3])) == 0 then return 0 end
call('ZADD', @files(), exact(now), ARGV[3])
return 1

-- script: drop_files
-- Store.drop_files.
-- ARGV   3 the moment since when nobody has put them, the rest: their sha256
-- returns nothing
-- include: base, events

last_number()
for number = 4, #ARGV do
  local at = call('ZSCORE', @files(), ARGV[number])
  if not at or tonumber(at) < tonumber(ARGV[3]) then
    call('UNLINK', @file(ARGV[number]))
    call('ZREM', @files(), ARGV[number])
  end
end
