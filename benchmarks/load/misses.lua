-- The script of wrk for misses: each request is for an object that nobody has asked for before.
-- Its argument is the prefix of this round. Prints what came of it as wrk.lua does.

local prefix, number = "", 0

function init(arguments)
   prefix = arguments[1]
end

function request()
   number = number + 1
   return "GET /bench/" .. prefix .. "/" .. string.format("%07d", number) .. " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
end

function done(summary, latency, _)
   local errors = summary.errors
   io.write(string.format(
      '{"requests": %d, "micros": %d, "bytes": %d, "p50": %d, "p99": %d, "refused": %d, "broken": %d}\n',
      summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
      errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
