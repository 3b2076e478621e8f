-- Whether a worker can run the tasks of a lane: the same as core/ordering/lanes.py and core/patterns.py.

-- Patterns are {beginning, end, pieces between them}, or false instead of the pieces if that is one star (see
-- handles.py). A piece is a character, 1 for any, 2 for a star, or {is negated, first code, last code, …}.

local function is_one_of(piece, character)
  local code, second, third, fourth = string.byte(character, 1, 4)
  if fourth then
    code = (code - 240) * 262144 + (second - 128) * 4096 + (third - 128) * 64 + fourth - 128
  elseif third then
    code = (code - 224) * 4096 + (second - 128) * 64 + third - 128
  elseif second then
    code = (code - 192) * 64 + second - 128
  end
  for number = 2, #piece, 2 do
    if code >= piece[number] and code <= piece[number + 1] then return not piece[1] end
  end
  return piece[1]
end

-- In time in proportion to the word: only the last star is ever tried again, with one character more.
local function matches_pieces(text, pieces, as_path)
  local characters, at, place, star, from = {}, 1, 1, nil, nil
  for character in string.gmatch(text, '.[\128-\191]*') do characters[#characters + 1] = character end
  while at <= #characters do
    local piece, character = pieces[place], characters[at]
    if piece == @STAR_PIECE then
      star, from, place = place, at, place + 1
    elseif piece and (piece == character or (not (as_path and character == '/')
        and (piece == @ANY_PIECE or type(piece) == 'table' and is_one_of(piece, character)))) then
      at, place = at + 1, place + 1
    elseif star and not (as_path and characters[from] == '/') then
      from = from + 1
      at, place = from, star + 1
    else
      return false
    end
  end
  while pieces[place] == @STAR_PIECE do place = place + 1 end
  return place > #pieces
end

local function matches_pattern(word, pattern, as_path)
  local head, tail = #pattern[1], #pattern[2]
  if #word < head + tail or string.sub(word, 1, head) ~= pattern[1]
      or string.sub(word, #word - tail + 1) ~= pattern[2] then
    return false
  end
  local between = string.sub(word, head + 1, #word - tail)
  if not pattern[3] then return not (as_path and string.find(between, '/', 1, true)) end
  return matches_pieces(between, pattern[3], as_path)
end

-- handles: {everything, plain, names, name patterns, programs, program patterns}; true instead of words: all of them.
local function handles_lane(lane, handles)
  if handles[1] then return true end
  if lane == '' then return handles[2] end
  local first = string.sub(lane, 1, 5) == 'name ' and 3 or 5
  local words, word = handles[first], string.sub(lane, first == 3 and 6 or 9)
  if words == true then return true end
  if #word > @LONGEST_WORD then return false end
  for _, name in ipairs(words) do
    if name == word then return true end
  end
  for _, pattern in ipairs(handles[first + 1]) do
    if matches_pattern(word, pattern, first == 5) then return true end
  end
  return false
end
