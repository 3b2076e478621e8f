-- Who holds a unique word: at most one task of a queue, unless one that held it only while it waited
-- had to come back.
-- include: entries, lines

local newcomers = {} -- queue → word → entry that has come to hold it in this script

local function note_holder(entry)
  local queue = entry.r[@QUEUE]
  if not newcomers[queue] then newcomers[queue] = {} end
  newcomers[queue][entry.r[@UNIQUE]] = entry
end

local function is_holder(entry, but)
  if not entry or entry.gone or entry.r[@ID] == but then return false end
  local ends = unique_end(entry.r, entry.r[@STATE])
  return ends and ends > now
end

-- On a cluster: the claim (`nonce id`) of another task that comes with others, all or none, and is to hold the word.
local function other_promise(word, id)
  local promise = #KEYS > 0 and call('HGET', @promised(), word)
  return promise and string.sub(promise, string.find(promise, ' ', 1, true) + 1) ~= id and promise or nil
end

-- The entry of the task that holds the word, other than the one named.
local function holder_of(queue, word, but)
  local new = newcomers[queue] and newcomers[queue][word]
  if is_holder(new, but) then return new end
  for _, id in ipairs(call('ZRANGEBYSCORE', @unique(queue, word), '(' .. NOW, '+inf')) do
    local entry = fetch(id)
    if is_holder(entry, but) then return entry end
    if entries[id] == false then call('ZREM', @unique(queue, word), id) end -- its record is gone
  end
  return nil
end
