-- Asks a node of Quorate about a request: txn.quorate_query is what is asked,
-- txn.quorate_status what it says. No answer within the timeout sets nothing, and the
-- request passes; "http-request deny unless { var(txn.quorate_status) -m found }" would
-- refuse it. Needs HAProxy 2.6.
--
-- It speaks HTTP itself: core.httpclient() connects again three times, a second apart,
-- where nobody listens, and its timeout does not count that.
local node = "127.0.0.1:7411" -- of several, name the nearest: each decides by itself
local timeout = 0.05 -- seconds, for all of it

local function now()
  local t = core.now()
  return t.sec + t.usec / 1e6
end

-- ask returns status, headers and body of an answer, or nothing.
local function ask(target, headers)
  local deadline = now() + timeout
  local tcp = core.tcp()
  local function left() -- bounds what is done next
    local rest = deadline - now()
    if rest < 0.001 then
      return false
    end
    tcp:settimeout(rest)
    return true
  end
  tcp:settimeout(timeout)
  if not tcp:connect(node) then
    return
  end
  local lines = {"GET " .. target .. " HTTP/1.0", "host: " .. node}
  for name, value in pairs(headers) do
    lines[#lines + 1] = name .. ": " .. value
  end
  local line = left() and tcp:send(table.concat(lines, "\r\n") .. "\r\n\r\n") and left() and tcp:receive("*l")
  local status = tonumber(line and string.match(line, "^HTTP/1%.%d (%d%d%d)"))
  local answer = {}
  while status and left() do
    line = tcp:receive("*l")
    if line == nil then
      break
    elseif string.gsub(line, "\r", "") == "" then
      local body = left() and tcp:receive("*a")
      tcp:close()
      return status, answer, body or ""
    end
    local name, value = string.match(line, "^([^:]+):%s*(.-)\r?$")
    if name then
      answer[string.lower(name)] = value
    end
  end
  tcp:close()
end

core.register_action("quorate", {"http-req"}, function(txn)
  local headers = {
    ["x-forwarded-for"] = txn.f:src(),
    ["x-forwarded-method"] = txn.f:method(),
    ["x-forwarded-uri"] = txn.f:path(),
  }
  local user = txn.http:req_get_headers()["x-user"] -- and what else key_header names
  if user and user[0] then
    headers["x-user"] = user[0]
  end
  local status, answer, body = ask("/v1/forward-auth?" .. txn:get_var("txn.quorate_query"), headers)
  if status == nil or status >= 500 then
    return
  end
  txn:set_var("txn.quorate_status", status)
  txn:set_var("txn.quorate_body", (string.gsub(body, "%s+$", ""))) -- a line end would be written as %0A
  for var, name in pairs({quorate_retry_after = "retry-after", quorate_ratelimit = "ratelimit", quorate_policy = "ratelimit-policy"}) do
    if answer[name] then
      txn:set_var("txn." .. var, answer[name])
    end
  end
end)
