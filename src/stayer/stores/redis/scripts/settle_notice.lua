-- Store.settle_notice: what came of a try.
-- ARGV   3 id, 4 the number of the try, 5 the state it leads to, 6 after how many seconds it is to be tried
--        again, 7 what was said
-- returns 1, or 0 if it is not this one's to tell
-- needs: base, delivery

local notice = known_notice(ARGV[3])
if notice.state ~= 'pending' or notice.tries ~= ARGV[4] then return 0 end
move_notice(ARGV[3], notice, ARGV[5], ARGV[6] ~= '' and now + ARGV[6], ARGV[7])
return 1
