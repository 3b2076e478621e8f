-- Store.submit: accept tasks, each id once.
-- ARGV   3 the tasks in groups (MessagePack, see lib/submit.lua), 4 whether an id comes twice (1 or 0);
--        the rest: records, and values kept apart
-- returns {now, {index, how, value, parameters, result, …} of those that were not fresh}
-- needs: base, lines, tasks, unique, submit

local known, index = {}, 0
for _, one in ipairs(cmsgpack.unpack(ARGV[3])) do
  if ARGV[4] == '1' or not accept_all(one) then
    fetch_all(one[G_IDS])
    for number in ipairs(one[G_IDS]) do
      local entry, how = accept(one, number)
      if how ~= 0 then known[#known + 1] = {index + number - 1, how, entry} end
    end
  end
  index = index + #one[G_IDS]
end
flush()

local told = {}
for _, each in ipairs(known) do
  local how, entry = each[2], each[3]
  local apart = how == 1 and kept_apart(entry) or {}
  told[#told + 1] = each[1]
  told[#told + 1] = how
  told[#told + 1] = how == 1 and entry.value or entry
  told[#told + 1] = apart[1] or false
  told[#told + 1] = apart[2] or false
end
return {exact(now), told}
