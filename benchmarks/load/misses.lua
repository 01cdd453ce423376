-- The script of wrk for misses: each request is for an object that no request was for before.
-- Its argument is the prefix of this round's keys.

dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "outcome.lua")

local prefix, number = "", 0

function init(arguments)
   prefix = arguments[1]
end

function request()
   number = number + 1
   return "GET /bench/" .. prefix .. "/" .. string.format("%07d", number) .. " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
end
