-- What came in from outside and was of no use.

local REFUSED_KEPT = 1000

local function refuse(place, item, why)
  call('LPUSH', place, cjson.encode({item = item, error = why, at = now}))
  call('LTRIM', place, 0, REFUSED_KEPT - 1)
end
