-- Runs before an attempt that is not a request's first, whose number is known from the request only.
function envoy_on_request(handle)
  handle:streamInfo():dynamicMetadata():set("bardo.attempt", "number", handle:headers():get("x-envoy-attempt-count") or "1")
end
