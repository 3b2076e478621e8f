-- Store.retry_notices: due now, as if they had not been tried.
-- ARGV   the rest: ids
-- returns how many
-- needs: base, delivery

local count = 0
for number = 3, #ARGV do
  local notice = known_notice(ARGV[number])
  if notice.state and notice.state ~= 'delivered' then
    call('HSET', key_notice(ARGV[number]), 'forgiven', notice.tries, 'since', NOW)
    move_notice(ARGV[number], notice, 'pending', now)
    count = count + 1
  end
end
return count
