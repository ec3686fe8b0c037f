-- Runs once per attempt, between the router and one provider.

-- The attempt's number is known from the request only.
function envoy_on_request(handle)
  handle:streamInfo():dynamicMetadata():set("bardo.attempt", "number", handle:headers():get("x-envoy-attempt-count") or "1")
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local status = headers:get(":status") or ""
  local metadata = handle:streamInfo():dynamicMetadata()
  local number = (metadata:get("bardo.attempt") or {}).number or "1"
  metadata:set("bardo", "attempt_" .. number,
    handle:filterContext():get("cluster") .. ";" .. status .. ";" .. (headers:get("retry-after") or ""))

  -- A provider that dies in the middle of a JSON answer is still one whose request can be tried elsewhere, as long as
  -- nothing of the answer has gone on. Streams go on as they come.
  if string.sub(status, 1, 1) == "2" and not string.find(headers:get("content-type") or "", "event-stream", 1, true) then
    handle:body(true)
  end
end
