-- The script of wrk: sends the requests of a file in turn.
-- The file holds requests as bytes on the wire, each ended by a NUL.

dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "outcome.lua")

local requests = {}
local at = 0

function init(arguments)
   local file = assert(io.open(arguments[1], "rb"))
   for request in file:read("*a"):gmatch("([^%z]+)%z") do
      requests[#requests + 1] = request
   end
   file:close()
end

function request()
   at = at % #requests + 1
   return requests[at]
end
