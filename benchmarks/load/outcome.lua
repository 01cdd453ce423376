-- The end of each script of wrk: prints the result of a round as one line of JSON.

function done(summary, latency, _)
   local errors = summary.errors
   io.write(string.format(
      '{"requests": %d, "micros": %d, "bytes": %d, "p50": %d, "p99": %d, "refused": %d, "broken": %d}\n',
      summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
      errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
