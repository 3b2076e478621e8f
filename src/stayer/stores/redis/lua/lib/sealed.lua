-- A store that is being moved, or was: then its last number has words in front (see move.lua), which this says to
-- whoever wants to change something. Who is about to write asks for the last number first.
-- include: base

local function refuse_if_sealed(noted)
  local words = noted and string.match(noted, '^sealed %d+ (.*)$')
  if words then error('STAYERSEALED ' .. words .. '|') end
end
