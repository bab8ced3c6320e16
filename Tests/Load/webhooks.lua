-- wrk sends signed Purchasely webhooks, each different and of about 1 KB. wrk and OpenSSL are the load's, not ours.
-- usage: wrk … -s webhooks.lua URL -- secret=FILE run=HEX [KEY=VALUE]…
--   secret           file of the source's secret
--   run              12 hexadecimal digits, different for each run against one database
--   prepared         so many requests of each thread are made before the clock starts; what is needed beyond that is
--                    made on the way, for some µs each
--   purchase_events  events of each purchase, not in a row but with others' between them (1)
--   renewals         so many of a hundred requests renew a purchase that is picked at random: one of those stored, or
--                    one that this thread has made (0; not with purchase_events)
--   stored           so many purchases are stored, from number 1 of the first thread of another run, stored_run, on (0)
--   pause_ms         each connection rests so long before a request
--   mean_pause_ms    the same, at random between nothing and twice as long: connections do not fall into step
--   close            a connection for each request
local ffi = require("ffi")
-- wrk is linked with libcrypto, so its symbols are in the process.
ffi.cdef [[
   const void *EVP_sha256(void);
   unsigned char *HMAC(const void *digest, const void *key, int key_bytes, const unsigned char *data, size_t data_bytes,
                       unsigned char *out, unsigned int *out_bytes);
]]
local digest, written = ffi.new("unsigned char[64]"), ffi.new("unsigned int[1]")

-- Purchases whose events are sent in turn: so many lie between two events of one.
local interleaved = 128
local event_names = { "ACTIVATE", "SUBSCRIPTION_RENEWED", "RENEWAL_DISABLED", "RENEWAL_ENABLED" }

local threads = 0
function setup(thread)
   thread:set("thread_number", threads)
   threads = threads + 1
end

local function hex(bytes, count)
   local digits = {}
   for index = 0, count - 1 do digits[index + 1] = string.format("%02x", bytes[index]) end
   return table.concat(digits)
end

-- The bodies' fields are those of Purchasely's own samples.
local template = [[{"api_version":3,"environment":"PRODUCTION","event_name":"%s","is_family_shared":false,]]
   .. [["offer_type":"NONE","plan":"premium_monthly","product":"premium","purchase_type":"RENEWING_SUBSCRIPTION",]]
   .. [["store":"APPLE_APP_STORE","store_app_bundle_id":"com.example.app","store_country":"FR",]]
   .. [["store_product_id":"com.example.app.premium.monthly","subscription_status":"AUTO_RENEWING",]]
   .. [["customer_currency":"EUR","plan_price_in_customer_currency":9.99,"plan_price_in_usd":10.87,]]
   .. [["previous_offer_type":"NONE","placement":"onboarding","presentation":"paywall_1",]]
   .. [["event_created_at":"2026-01-01T00:00:00.000Z","purchased_at":"2026-01-01T00:00:00.000Z",]]
   .. [["original_purchased_at":"2026-01-01T00:00:00.000Z","next_renewal_at":"2026-02-01T00:00:00.000Z",]]
   .. [["event_id":"%s-%s-4000-8%03x-%012x","event_created_at_ms":%d,"effective_next_renewal_at_ms":%d,]]
   .. [["purchased_at_ms":%d,"purchasely_subscription_id":"subs_%s","user_id":"user_%s",]]
   .. [["store_transaction_id":"%s","store_original_transaction_id":"%s"}]]

local secret, run, events_each, now_ms, made = nil, nil, 1, 0, 0
-- Requests that are no renewals.
local fresh = 0
local renewals, stored, stored_run = 0, 0, nil
local head, connection = "", ""

local function name_of(purchase) return string.format("%s%x%09d", run, thread_number, purchase) end

-- The name of a purchase, its transaction and what happens to it.
local function new_event()
   local block, within = math.floor(fresh / (interleaved * events_each)), fresh % (interleaved * events_each)
   local purchase, step = block * interleaved + within % interleaved, math.floor(within / interleaved)
   fresh = fresh + 1
   return name_of(purchase), name_of(purchase), event_names[step % #event_names + 1]
end

local function renewal()
   local purchase = math.random(stored + fresh)
   local name = purchase <= stored and string.format("%s0%09d", stored_run, purchase)
      or name_of(purchase - stored - 1)
   -- What extends access; SUBSCRIPTION_RENEWED states none.
   return name, string.format("%sr%x%09d", run, thread_number, made), "ACTIVATE"
end

local function make()
   local is_renewal = stored + fresh > 0 and math.random(100) <= renewals
   local name, transaction, event_name = (is_renewal and renewal or new_event)()
   local at = now_ms + made
   local body = string.format(template, event_name, run:sub(1, 8), run:sub(9, 12),
      thread_number, made, at, at + 2592000000, now_ms, name, name, transaction, name)
   made = made + 1
   local stamp = tostring(math.floor(at / 1000))
   local signed = stamp .. body
   ffi.C.HMAC(ffi.C.EVP_sha256(), secret, #secret, signed, #signed, digest, written)
   return head .. "X-PURCHASELY-TIMESTAMP: " .. stamp .. "\r\nX-PURCHASELY-REQUEST-SIGNATURE: " .. hex(digest, 32)
      .. connection .. "\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

local ready, sent = {}, 0

function init(arguments)
   local given = {}
   for _, argument in ipairs(arguments) do
      local key, value = argument:match("^([a-z_]+)=(.*)$")
      if key then given[key] = value end
   end
   local file = assert(io.open(given.secret, "rb"))
   secret = file:read("*a"):gsub("\n$", "")
   file:close()
   run, events_each, now_ms = given.run, tonumber(given.purchase_events or 1), os.time() * 1000
   renewals, stored, stored_run = tonumber(given.renewals or 0), tonumber(given.stored or 0), given.stored_run
   math.randomseed(os.time() + thread_number)
   head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.headers["Host"]
      .. "\r\nContent-Type: application/json\r\n"
   if given.close then connection = "\r\nConnection: close" end
   local pause, mean = tonumber(given.pause_ms), tonumber(given.mean_pause_ms)
   if pause then delay = function() return pause end end
   if mean then delay = function() return math.random(0, 2 * mean) end end
   for index = 1, tonumber(given.prepared or 0) do ready[index] = make() end
end

function request()
   sent = sent + 1
   return ready[sent] or make()
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format(
      "FIGURES requests=%d seconds=%.6f non2xx=%d socket_errors=%d p50_us=%d p99_us=%d (connect %d, read %d, write %d, timeout %d)\n",
      summary.requests, summary.duration / 1e6, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout,
      latency:percentile(50), latency:percentile(99), errors.connect, errors.read, errors.write, errors.timeout))
end
