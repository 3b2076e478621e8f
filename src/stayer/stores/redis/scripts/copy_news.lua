-- Cluster: copy events of a shard into the stream of all, in the order in which they are copied.
-- ARGV   3 the queue, 4 the number up to which they had been copied, 5 up to which they are now,
--        6 how many are kept; the rest: events (MessagePack)
-- returns 1, or 0 if somebody else has copied some meanwhile
-- needs: base, stream

if (call('HGET', key_relayed(), ARGV[3]) or '0') ~= ARGV[4] then return 0 end
local last = tonumber(call('HGET', key_relayed(), '') or newest_number(key_news()))
for number = 7, #ARGV do
  last = last + 1
  call('XADD', key_news(), 'MAXLEN', '~', ARGV[6], string.format('%.0f-0', last), 'e', ARGV[number])
end
-- Not before: a stream of another's making takes none of them, and then none has been copied.
call('HSET', key_relayed(), ARGV[3], ARGV[5], '', string.format('%.0f', last))
return 1
