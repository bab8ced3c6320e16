-- wrk sends what make-webhooks wrote: each thread its own share, each line once.
-- usage: wrk … -s webhooks.lua URL -- FILE THREADS [PAUSE_MS [close]]
-- PAUSE_MS: each connection rests so long before a request. close: a connection for each request.
local threads = 0
function setup(thread)
   thread:set("number", threads)
   threads = threads + 1
end

function init(args)
   lines, position = {}, 0
   local share, pause, at = tonumber(args[2]), tonumber(args[3]), 0
   if pause then delay = function() return pause end end
   for line in io.lines(args[1]) do
      if at % share == number then lines[#lines + 1] = line end
      at = at + 1
   end
   for index, line in ipairs(lines) do
      local stamp, signature, body = line:match("^(%d+)\t(%x+)\t(.*)$")
      lines[index] = wrk.format("POST", nil, {
         ["Content-Type"] = "application/json", ["X-PURCHASELY-TIMESTAMP"] = stamp,
         ["X-PURCHASELY-REQUEST-SIGNATURE"] = signature, ["Connection"] = args[4] }, body)
   end
end

function request()
   position = position + 1
   if lines[position] == nil then wrk.thread:stop() return lines[1] end
   return lines[position]
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format("FIGURES requests=%d seconds=%.3f non2xx=%d socket_errors=%d (connect %d, read %d, write %d, timeout %d) p50_ms=%.2f p99_ms=%.2f\n",
      summary.requests, summary.duration / 1e6, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout,
      errors.connect, errors.read, errors.write, errors.timeout,
      latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
