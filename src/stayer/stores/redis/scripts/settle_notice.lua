-- Store.settle_notice: what came of a try.
-- ARGV   3 id, 4 the number of the try, 5 how many before it were forgiven, 6 the state it leads to, 7 after how
--        many seconds it is to be tried again, 8 what was said, 9 how many tries more are forgiven
-- returns 1, or 0 if it is not this one's to tell
-- needs: base, delivery

local notice = known_notice(ARGV[3])
if notice.state ~= 'pending' or notice.tries ~= ARGV[4] then return 0 end
-- A failure says nothing of a retry that came meanwhile.
if ARGV[6] ~= 'delivered' and notice.forgiven ~= ARGV[5] then return 0 end
move_notice(ARGV[3], notice, ARGV[6], ARGV[7] ~= '' and now + ARGV[7], ARGV[8])
if ARGV[9] ~= '0' then call('HINCRBY', key_notice(ARGV[3]), 'forgiven', ARGV[9]) end
return 1
