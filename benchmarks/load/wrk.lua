-- The script of wrk: sends the requests of a file in turn, and prints what came of them as one line of JSON.
-- The file holds requests as bytes on the wire, each ended by a NUL.

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

function done(summary, latency, _)
   local errors = summary.errors
   io.write(string.format(
      '{"requests": %d, "micros": %d, "bytes": %d, "p50": %d, "p99": %d, "refused": %d, "broken": %d}\n',
      summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
      errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
