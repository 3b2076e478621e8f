-- A notice is a hash: task, queue, event, to, attempt, at, state, tries, forgiven and
-- since (once it was retried), next, said, record (the task's as it was, without its history), and parameters and
-- result if these are kept apart and short.
-- include: base

-- Where it stands in lists.
local function notice_place(at, id) return string.format('%016.0f', math.floor(at * 1000000 + 0.5)) .. id end

-- The name of the hook; nothing if it is a URL.
local function hook_of(target) return string.find(target, '://', 1, true) and '' or target end
