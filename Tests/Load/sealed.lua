-- wrk sends bodies from files, one for each thread (sealed_bodies.py). usage: wrk … -s sealed.lua URL -- FILE_OF_THREAD…
-- A body that is sent again, because there were too few, is a duplicate: the caller counts what was stored.
local threads = 0
function setup(thread)
   thread:set("thread_number", threads)
   threads = threads + 1
end

local file, head

function init(arguments)
   file = assert(io.open(arguments[thread_number + 1], "rb"))
   head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.headers["Host"]
      .. "\r\nContent-Type: application/json\r\nContent-Length: "
end

function request()
   local length = file:read(10)
   if not length then
      file:seek("set")
      length = file:read(10)
   end
   local bytes = tonumber(length)
   return head .. bytes .. "\r\n\r\n" .. file:read(bytes)
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format("FIGURES requests=%d seconds=%.6f non2xx=%d socket_errors=%d p50_us=%d p99_us=%d\n",
      summary.requests, summary.duration / 1e6, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout, latency:percentile(50), latency:percentile(99)))
end
