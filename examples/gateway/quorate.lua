-- Asks a node of Quorate about a request: txn.quorate_query is what is asked,
-- txn.quorate_status what it says. No answer within the timeout sets nothing, and the
-- request passes; "http-request deny unless { var(txn.quorate_status) -m found }" would
-- refuse it. Needs HAProxy 2.6.
local node = "http://127.0.0.1:7411" -- of several, name the nearest: each decides by itself
local timeout = 50 -- milliseconds

local function first(headers, name)
  local list = headers and headers[name]
  return list and (list[0] or list[1])
end

core.register_action("quorate", {"http-req"}, function(txn)
  local headers = {
    ["x-forwarded-for"] = {txn.f:src()},
    ["x-forwarded-method"] = {txn.f:method()},
    ["x-forwarded-uri"] = {txn.f:path()},
  }
  local user = first(txn.http:req_get_headers(), "x-user") -- and what else key_header names
  if user then
    headers["x-user"] = {user}
  end
  local answer = core.httpclient():get{
    url = node .. "/v1/forward-auth?" .. txn:get_var("txn.quorate_query"),
    headers = headers,
    timeout = timeout,
  }
  if answer == nil or answer.status == nil or answer.status == 0 or answer.status >= 500 then
    return
  end
  txn:set_var("txn.quorate_status", answer.status)
  txn:set_var("txn.quorate_body", (string.gsub(answer.body or "", "%s+$", ""))) -- a line end would be written as %0A
  for var, name in pairs({quorate_retry_after = "retry-after", quorate_ratelimit = "ratelimit", quorate_policy = "ratelimit-policy"}) do
    local value = first(answer.headers, name)
    if value then
      txn:set_var("txn." .. var, value)
    end
  end
end)
