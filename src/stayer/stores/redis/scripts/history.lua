-- Store.attempts and Store.events: all that a task has been through.
-- ARGV   3 the id
-- returns nil, or {value, the older history, {attempt, its newest usage, …}}
-- needs: base, record, lines, tasks

local id = ARGV[3]
local entry = fetch(id)
if not entry then return false end
local usages = {}
for _, attempt in ipairs(kept_attempts(entry)) do
  local newest = -1
  for _, slot in ipairs(call('HKEYS', key_usage(attempt, id))) do
    newest = math.max(newest, tonumber(slot))
  end
  if newest >= 0 then
    usages[#usages + 1] = attempt
    usages[#usages + 1] = call('HGET', key_usage(attempt, id), newest)
  end
end
return {entry.value, older_history(id), usages}
