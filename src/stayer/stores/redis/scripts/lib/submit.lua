-- Accepting tasks: each id once.

-- what: {record, delay or false, drawn at random?, form and argument number of parameters that are
-- kept apart, or false}. The answer is the entry and how it came: 0 fresh, 1 it was there, 2 it was
-- purged (then the entry is what is left of it).
local function accept(what)
  local r = what[1]
  local id = r[ID]
  local there = fetch(id)
  if there then return there, 1 end
  if not what[3] then
    local left = call('GET', key_purged(id))
    if left and cmsgpack.unpack(left)[5] > now - REMEMBERED then return left, 2 end
    if left then call('DEL', key_purged(id)) end
  end
  r[CREATED], r[UPDATED] = now, now
  if what[2] then r[ETA] = now + what[2] end
  local flags = what[4] or 0
  if r[ETA] and r[ETA] > now then
    r[STATE] = 'scheduled'
    flags = flags + 16
  end
  if what[4] then call('SET', key_parameters(id), ARGV[what[5]]) end
  local entry = {r = r, flags = flags, history = '', touched = true, was = {}}
  entries[id] = entry
  touched[#touched + 1] = entry
  r[SEQ] = happened(entry, r[STATE], 0, false, false)
  -- A new eta may be the next one due: those who sleep until then should look again.
  wake(r[QUEUE])
  return entry, 0
end
