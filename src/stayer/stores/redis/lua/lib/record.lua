-- Values as they are stored, and back: the counterpart of record.py.
--
-- A value is a byte of flags, the lengths of the record (4 bytes) and of the task's own part in it (3), the
-- record, and the history. The record is a MessagePack array, the head of which always takes three bytes. What
-- only this task has comes first: updated, created and seq (nine bytes each), id, parameters, result. Tasks that
-- have the rest in common, their kind, are changed alike (see lib/bulk.lua).

-- Whether it looks like a value of ours: others may write to this server too, and a script that fails has done the half
-- of what it was to do.
local function is_whole(value)
  return #value > @CREATED_AT and string.byte(value, @HEAD_LENGTH + 1) == 220
    and @HEAD_LENGTH + select(2, struct.unpack('>BI4', value)) <= #value
end

-- The entry of a value; nothing if it can't be read, as if there were none.
local function open_record(value)
  if not is_whole(value) then return nil end
  local flags, length = struct.unpack('>BI4', value)
  local can, _, record = pcall(cmsgpack.unpack_one, value, @HEAD_LENGTH)
  if not can or type(record) ~= 'table' or type(record[@ID]) ~= 'string' then return nil end
  return {r = record, flags = flags, value = value, touched = false, was = false, ticket = false, popped = false,
          history = string.sub(value, @HEAD_LENGTH + 1 + length)}
end

-- When a task was made, and its number.
local function created_and_seq(value) return struct.unpack('>dxd', value, @CREATED_AT) end

-- Where in a value its own part and its record end; its flags.
local function ends_of(value)
  local flags, length, own = struct.unpack('>BI4I3', value)
  return @OWN_AT - 1 + own, @HEAD_LENGTH + length, flags
end

-- What comes before `created`.
local function head_of(flags, own_length, kind_length, fields, updated)
  return struct.pack('>BI4I3BHBd', flags, @ARRAY_HEAD + own_length + kind_length, own_length, 220, fields, 203, updated)
end

-- All fields, packed, without the array's head, and how many there are. With a hole in it Lua takes a table for a
-- map; that is rare, so it is mended when it has happened.
local function pack_fields(r)
  local packed = cmsgpack.pack(r)
  local first = string.byte(packed)
  if first == 222 or first < 144 then
    for number = 1, table.maxn(r) do
      if r[number] == nil then r[number] = false end
    end
    packed = cmsgpack.pack(r)
    first = string.byte(packed)
  end
  if first == 220 then return string.sub(packed, 4), struct.unpack('>H', packed, 2) end
  return string.sub(packed, 2), first - 144
end

-- The record of an entry: what comes before `created`, its own part from there, its kind, how many fields.
local function pack_record(entry)
  local r = entry.r
  local updated, created, seq = r[@UPDATED], r[@CREATED], r[@SEQ]
  r[@UPDATED], r[@CREATED], r[@SEQ] = false, false, false -- a byte each: numbers have many lengths
  local packed, fields = pack_fields(r)
  r[@UPDATED], r[@CREATED], r[@SEQ] = updated, created, seq
  local named = #cmsgpack.pack(r[@ID], r[@PARAMETERS], r[@RESULT])
  local own = struct.pack('>BdBd', 203, created, 203, seq) .. string.sub(packed, 4, 3 + named)
  local kind = string.sub(packed, 4 + named)
  return head_of(entry.flags, 9 + #own, #kind, fields, updated), own, kind, fields
end
