-- Store.submit: accept tasks, each id once.
-- ARGV   3 the tasks (MessagePack, see lib/submit.lua); the rest: values kept apart
-- returns {now, {index, how, value, …} of those that were not fresh, kept apart (index in that list)}
-- needs: base, tasks, submit

local wanted = cmsgpack.unpack(ARGV[3])
local ids = {}
for _, what in ipairs(wanted) do
  if not what[3] then ids[#ids + 1] = what[1][ID] end
end
fetch_all(ids)
local known, numbers = {}, {}
for number, what in ipairs(wanted) do
  local entry, how = accept(what)
  if how ~= 0 then
    known[#known + 1] = entry
    numbers[#numbers + 1] = {number - 1, how}
  end
end
flush()
local told, apart = {}, {}
for place_of, entry in ipairs(known) do
  told[#told + 1] = numbers[place_of][1]
  told[#told + 1] = numbers[place_of][2]
  told[#told + 1] = numbers[place_of][2] == 2 and entry or entry.value
  if numbers[place_of][2] == 1 then
    local _, more = shown({entry})
    if #more > 0 then
      apart[#apart + 1] = place_of - 1
      apart[#apart + 1] = more[2]
      apart[#apart + 1] = more[3]
    end
  end
end
return {exact(now), told, apart}
