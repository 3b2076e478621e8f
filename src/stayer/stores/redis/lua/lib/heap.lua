-- What comes first of many, without a look at all of them: a binary heap in a list.

-- Let what stands at a place sink to where none that comes before it is below it.
local function sink(heap, at, comes_before)
  local size, moved = #heap, heap[at]
  while true do
    local child = at * 2
    if child > size then break end
    if child < size and comes_before(heap[child + 1], heap[child]) then child = child + 1 end
    if not comes_before(heap[child], moved) then break end
    heap[at], at = heap[child], child
  end
  heap[at] = moved
end

-- Make a heap of a list, in its place.
local function make_heap(list, comes_before)
  for at = math.floor(#list / 2), 1, -1 do sink(list, at, comes_before) end
  return list
end

-- Take the first out of a heap.
local function drop_first(heap, comes_before)
  heap[1] = heap[#heap]
  heap[#heap] = nil
  if #heap > 1 then sink(heap, 1, comes_before) end
end
