-- Store.drop_notices: forget them.
-- ARGV   the rest: ids
-- returns how many
-- needs: base, delivery

local count = 0
for number = 3, #ARGV do
  local notice = known_notice(ARGV[number])
  if notice.state then
    drop_notice(ARGV[number], notice)
    count = count + 1
  end
end
return count
