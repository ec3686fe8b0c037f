-- Runs when an attempt has its answer, between one provider and the router.

-- What the code or the type of an error means as a status. One that is not here means that the provider failed.
local statuses = {
  invalid_request_error = "400", context_length_exceeded = "400", BadRequestError = "400", INVALID_ARGUMENT = "400",
  authentication_error = "401", invalid_api_key = "401", UNAUTHENTICATED = "401", billing_error = "402",
  permission_error = "403", PERMISSION_DENIED = "403",
  not_found_error = "404", model_not_found = "404", NotFoundError = "404", NOT_FOUND = "404", request_too_large = "413",
  rate_limit_error = "429", rate_limit_exceeded = "429", insufficient_quota = "429", RESOURCE_EXHAUSTED = "429",
  overloaded = "503", engine_overloaded = "503", service_unavailable = "503", UNAVAILABLE = "503",
  timeout_error = "504", timeout = "504", DEADLINE_EXCEEDED = "504", overloaded_error = "529",
}

-- The status that an error should have come with.
local function meaning(text)
  for _, key in ipairs({ '"code"', '"type"', '"status"' }) do
    for value in string.gmatch(text, key .. '%s*:%s*"?([%w_]+)') do
      if statuses[value] or string.find(value, "^[45]%d%d$") then
        return statuses[value] or value
      end
    end
  end
  return "502"
end

-- Some providers send blank lines while they work.
local function firstCharacter(body)
  local at, length = 0, body:length()
  while at < length do
    local piece = body:getBytes(at, math.min(length - at, 64))
    local found = string.find(piece, "%S")
    if found then
      return at + found - 1
    end
    at = at + #piece
  end
  return length
end

-- How the errors of OpenAI, Anthropic and vLLM begin.
local errors = { '^{%s*"error"%s*:%s*[{"]', '^{%s*"type"%s*:%s*"error"', '^{%s*"object"%s*:%s*"error"' }

-- The status of a whole answer that came with 2xx and is none: nothing, a web page, or an error; else nil.
local function judge(body)
  local at, length = firstCharacter(body), body:length()
  local start = body:getBytes(at, math.min(length - at, 48))
  if start == "" or string.sub(start, 1, 1) == "<" then
    return "502"
  end
  for _, shape in ipairs(errors) do
    if string.find(start, shape) then
      return meaning(body:getBytes(at, math.min(length - at, 4096)))
    end
  end
  return nil
end

-- The attempt's number. The first cluster of a request sees the first one alone; what is retried notes it.
local function number(handle)
  return handle:filterContext():get("number") or handle:streamInfo():dynamicMetadata():get("bardo.attempt").number
end

-- Says for the sidecar how this attempt went. The objects of a stream do not outlive a wait: they are asked for each time.
local function note(handle, status)
  handle:streamInfo():dynamicMetadata():set("bardo.attempts", "attempt_" .. number(handle),
    handle:filterContext():get("cluster") .. ";" .. status .. ";" .. (handle:headers():get("retry-after") or ""))
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local status = headers:get(":status") or ""

  -- An answer that is good needs no note: nothing follows it, or it breaks off. Notes cost, since they are sent along with every message
  -- to the sidecar from here on.
  if string.sub(status, 1, 1) ~= "2" then
    note(handle, status)
    return
  end

  -- A provider that dies in the middle of a JSON answer, or says in it that it failed, is still one whose request can be
  -- tried elsewhere, as long as nothing of the answer has gone on. Streams go on as they come.
  if string.find(headers:get("content-type") or "", "event-stream", 1, true) then
    return
  end
  local meant = judge(handle:body(true))
  if meant then
    handle:headers():replace(":status", meant)
    note(handle, meant)
  end
end
