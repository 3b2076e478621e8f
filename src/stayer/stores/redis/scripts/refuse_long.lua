-- The next item that came in from outside is longer than any task: it goes, without anybody having read it.
-- ARGV   3 its length, 4 its beginning, 5 what of it is shown, 6 why it was of no use
-- returns 1, or 0 if another is the next
-- needs: base, refuse

local item, beginning = call('LINDEX', key_incoming(), -1), ARGV[4]
if not item or #item ~= tonumber(ARGV[3]) or string.sub(item, 1, #beginning) ~= beginning then return 0 end
call('LTRIM', key_incoming(), 0, -2)
refuse(#KEYS > 0 and key_unfit() or key_refused(), ARGV[5], ARGV[6])
return 1
