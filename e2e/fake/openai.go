package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

// openAI is OpenAI Chat Completions.
type openAI struct{}

const openAICreated = 1767225600 // every answer's "created"

func (openAI) authorize(h http.Header, key string) *refusal {
	got, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		return &refusal{
			status: http.StatusUnauthorized, kind: "invalid_request_error", quiet: true,
			message: "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
		}
	}
	if got != key {
		return &refusal{
			status: http.StatusUnauthorized, kind: "invalid_request_error", code: "invalid_api_key", quiet: true,
			message: "Incorrect API key provided: " + masked(got) + ".",
		}
	}
	return nil
}

func masked(key string) string {
	if len(key) < 12 {
		return "***"
	}
	return key[:4] + strings.Repeat("*", len(key)-8) + key[len(key)-4:]
}

func (openAI) headers(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("Openai-Organization", "org-fake")
	h.Set("Openai-Processing-Ms", "1")
	h.Set("Openai-Version", "2020-10-01")
	h.Set("X-Ratelimit-Limit-Requests", "10000")
	h.Set("X-Ratelimit-Remaining-Requests", "9999")
	h.Set("X-Ratelimit-Reset-Requests", "6ms")
}

func (openAI) refusal(e *refusal, _ string) []byte {
	return []byte(fmt.Sprintf("{\n    \"error\": {\n        \"message\": %s,\n        \"type\": %s,\n        \"param\": %s,\n        \"code\": %s\n    }\n}\n",
		quote(e.message), quote(e.kind), orNull(e.param), orNull(e.code)))
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}

func (openAI) errorFrame(e *refusal) frame {
	return frame{data: fmt.Sprintf(`data: {"error":{"message":%s,"type":%s,"param":%s,"code":%s}}`+"\n\n",
		quote(e.message), quote(e.kind), orNull(e.param), orNull(e.code))}
}

func (openAI) errorFor(status int) *refusal {
	e := &refusal{status: status, kind: "server_error", message: "The server had an error while processing your request. Sorry about that!"}
	switch {
	case status == http.StatusTooManyRequests:
		e.kind, e.code = "requests", "rate_limit_exceeded"
		e.message = "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s."
	case status == http.StatusServiceUnavailable:
		e.message = "The server is currently overloaded with other requests. Sorry about that! You can retry your request, or contact us through our help center if the error persists."
	case status == http.StatusForbidden:
		e.kind, e.code = "invalid_request_error", "unsupported_country_region_territory"
		e.message = "Country, region, or territory not supported"
	case status == http.StatusUnauthorized:
		e.kind, e.code, e.message = "invalid_request_error", "invalid_api_key", "Incorrect API key provided."
	case status == http.StatusNotFound:
		e.kind, e.code, e.message = "invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."
	case status < http.StatusInternalServerError:
		e.kind, e.message = "invalid_request_error", "This request is invalid."
	}
	return e
}

func (openAI) models(cfg *Config) []byte {
	rows := make([]string, 0, len(cfg.Models))
	for _, m := range cfg.Models {
		rows = append(rows, fmt.Sprintf(`{"id":%s,"object":"model","created":%d,"owned_by":"system"}`, quote(m), openAICreated))
	}
	return []byte(`{"object":"list","data":[` + strings.Join(rows, ",") + `]}`)
}

var openAIParams = []string{
	"messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
	"max_completion_tokens", "max_tokens", "metadata", "modalities", "n", "parallel_tool_calls", "prediction",
	"presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "response_format",
	"safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature",
	"tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
}

func bad(param, code, format string, args ...any) *refusal {
	return &refusal{
		status: http.StatusBadRequest, kind: "invalid_request_error", param: param, code: code, message: fmt.Sprintf(format, args...),
	}
}

func (openAI) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	o, err := rawjson.Parse(body)
	if err != nil || !isJSON(h.Get("Content-Type")) {
		return nil, bad("", "", "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)")
	}
	model := o.Str("model")
	if model == "" {
		return nil, bad("", "", "you must provide a model parameter")
	}
	if len(cfg.Models) > 0 && !slices.Contains(cfg.Models, model) {
		return nil, &refusal{
			status: http.StatusNotFound, kind: "invalid_request_error", code: "model_not_found",
			message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", model),
		}
	}
	if slices.Contains(cfg.Only, model) {
		return nil, &refusal{
			status: http.StatusNotFound, kind: "invalid_request_error", param: "model",
			message: "This model is only supported in v1/responses and not in v1/chat/completions.",
		}
	}
	if name := o.Unknown(append(slices.Clone(openAIParams), cfg.Allow...)...); name != "" {
		return nil, bad(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
	}
	for _, check := range []func(object) *refusal{openAIRanges, openAIReasoner, openAITools, openAIFormat, openAIMessages} {
		if e := check(o); e != nil {
			return nil, e
		}
	}
	n, _ := o.Num("n")
	return &asked{
		model: model, stream: o.Bool("stream"), includeUsage: o.Object("stream_options").Bool("include_usage"),
		choices: max(1, int(n)), inputTokens: max(1, len(body)/4), form: openAIForm(o),
	}, nil
}

func openAIRanges(o object) *refusal {
	for _, r := range []struct {
		name     string
		min, max float64
	}{{"temperature", 0, 2}, {"top_p", 0, 1}, {"presence_penalty", -2, 2}, {"frequency_penalty", -2, 2}, {"n", 1, 128}, {"max_tokens", 1, 1e9}, {"max_completion_tokens", 1, 1e9}} {
		v, ok := o.Num(r.name)
		switch {
		case !ok && o.Has(r.name):
			return bad(r.name, "invalid_type", "Invalid type for '%s': expected a decimal, but got something else instead.", r.name)
		case ok && v < r.min:
			return bad(r.name, "decimal_below_min_value", "Invalid '%s': decimal below minimum value. Expected a value >= %g, but got %g instead.", r.name, r.min, v)
		case ok && v > r.max:
			return bad(r.name, "decimal_above_max_value", "Invalid '%s': decimal above maximum value. Expected a value <= %g, but got %g instead.", r.name, r.max, v)
		}
	}
	if o.Has("stream_options") && !o.Bool("stream") {
		return bad("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	if o.Has("max_tokens") && o.Has("max_completion_tokens") {
		return bad("max_tokens", "invalid_parameter_combination", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	return nil
}

// openAIReasoner refuses what models that reason refuse.
func openAIReasoner(o object) *refusal {
	model := o.Str("model")
	if !strings.HasPrefix(model, "o1") && !strings.HasPrefix(model, "o3") && !strings.HasPrefix(model, "o4") && !strings.HasPrefix(model, "gpt-5") {
		return nil
	}
	if o.Has("max_tokens") {
		return bad("max_tokens", "unsupported_parameter", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
	}
	if strings.HasPrefix(model, "gpt-5.") && o.Str("reasoning_effort") == "none" {
		return nil // it does not think, and may be told how to draw its words
	}
	for _, p := range []string{"temperature", "top_p"} {
		if v, ok := o.Num(p); ok && v != 1 {
			return bad(p, "unsupported_value", "Unsupported value: '%s' does not support %g with this model. Only the default (1) value is supported.", p, v)
		}
	}
	return nil
}

func openAITools(o object) *refusal {
	for i, t := range o.List("tools") {
		if t.Str("type") != "function" {
			return bad(fmt.Sprintf("tools[%d].type", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'function' and 'custom'.", t.Str("type"))
		}
		f := t.Object("function")
		if !validToolName(f.Str("name")) {
			return bad(fmt.Sprintf("tools[%d].function.name", i), "invalid_value", "Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", i)
		}
		if k := f.Unknown("name", "description", "parameters", "strict"); k != "" {
			return bad(fmt.Sprintf("tools[%d].function.%s", i, k), "unknown_parameter", "Unknown parameter: 'tools[%d].function.%s'.", i, k)
		}
	}
	if o.Has("tool_choice") && len(o.List("tools")) == 0 {
		return bad("tool_choice", "", "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
	}
	return nil
}

func validToolName(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

var openAIRoles = []string{"system", "assistant", "user", "function", "tool", "developer"}

var openAIMessageFields = []string{
	"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call", "annotations", "reasoning_content",
}

func openAIMessages(o object) *refusal {
	if !o.Has("messages") {
		return bad("messages", "missing_required_parameter", "Missing required parameter: 'messages'.")
	}
	ms := o.List("messages")
	if len(ms) == 0 {
		return bad("messages", "empty_array", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	var open []string // ids of calls that wait for their result
	for i, m := range ms {
		if e := openAIMessage(m, i, &open); e != nil {
			return e
		}
	}
	return unanswered(open, len(ms))
}

func openAIMessage(m object, i int, open *[]string) *refusal {
	role := m.Str("role")
	if !slices.Contains(openAIRoles, role) {
		return bad(fmt.Sprintf("messages[%d].role", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", role)
	}
	if k := m.Unknown(openAIMessageFields...); k != "" {
		return bad(fmt.Sprintf("messages[%d].%s", i, k), "unknown_parameter", "Unknown parameter: 'messages[%d].%s'.", i, k)
	}
	if role == "tool" {
		at := slices.Index(*open, m.Str("tool_call_id"))
		if at < 0 {
			return bad(fmt.Sprintf("messages.[%d].role", i), "", "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
		}
		*open = slices.Delete(*open, at, at+1)
		return nil
	}
	if e := unanswered(*open, i); e != nil {
		return e
	}
	calls := m.List("tool_calls")
	for _, c := range calls {
		*open = append(*open, c.Str("id"))
		if !json.Valid([]byte(or(c.Object("function").Str("arguments"), "{}"))) {
			return bad(fmt.Sprintf("messages[%d].tool_calls", i), "invalid_value", "Invalid 'messages[%d].tool_calls[0].function.arguments': not valid JSON.", i)
		}
	}
	if !m.Has("content") && len(calls) == 0 && !m.Has("refusal") {
		return bad(fmt.Sprintf("messages.[%d].content", i), "", "Invalid value for 'content': expected a string, got null.")
	}
	return openAIParts(m, i)
}

func unanswered(open []string, i int) *refusal {
	if len(open) == 0 {
		return nil
	}
	return bad(fmt.Sprintf("messages.[%d].role", i), "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
}

func openAIParts(m object, i int) *refusal {
	for j, p := range m.List("content") {
		kind := p.Str("type")
		at := fmt.Sprintf("messages[%d].content[%d]", i, j)
		if !slices.Contains([]string{"text", "image_url", "input_audio", "refusal", "file"}, kind) {
			return bad(at+".type", "invalid_value", "Invalid value: '%s'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'.", kind)
		}
		if k := p.Unknown("type", "text", "image_url", "input_audio", "refusal", "file"); k != "" {
			return bad(at+"."+k, "unknown_parameter", "Unknown parameter: '%s.%s'.", at, k)
		}
	}
	return nil
}

func (openAI) body(q *asked, b *Behaviour, n int64) []byte {
	msg := b.openAIMessage(n)
	choices := make([]string, q.choices)
	for i := range choices {
		choices[i] = fmt.Sprintf(`{"index":%d,"message":%s,"logprobs":null,"finish_reason":%s}`, i, msg, quote(b.openAIFinish()))
	}
	usage := ""
	if b.Usage == nil || !b.Usage.Missing {
		usage = `,"usage":` + openAIUsage(b.count(q))
	}
	body := fmt.Sprintf(`{"id":%s,"object":"chat.completion","created":%d,"model":%s,"choices":[%s]%s,"service_tier":%s,"system_fingerprint":"fp_fake"%s}`,
		quote(completionID(n)), openAICreated, quote(or(b.AnswerModel, q.model)), strings.Join(choices, ","), usage, quote(b.tier()), extra(b))
	var out bytes.Buffer
	if json.Indent(&out, []byte(body), "", "  ") != nil { // Extra may be broken on purpose
		return []byte(body)
	}
	return append(out.Bytes(), '\n')
}

func (b *Behaviour) openAIMessage(n int64) string {
	text := strings.Join(b.pieces(), "")
	content := quote(text)
	if text == "" {
		content = "null"
	}
	m := `{"role":"assistant","content":` + content
	if t := b.reasoning(); t != "" {
		m += `,"reasoning_content":` + quote(t)
	}
	if len(b.ToolCalls) > 0 {
		calls := make([]string, len(b.ToolCalls))
		for i := range b.ToolCalls {
			c := &b.ToolCalls[i]
			calls[i] = fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c.callID("call_", n, i)), quote(c.Name), quote(c.Args))
		}
		m += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	return m + `,"refusal":null,"annotations":[` + b.citation() + `]}`
}

// searches is how often the provider searched the web.
func (b *Behaviour) searches() int {
	if b.Usage == nil {
		return 0
	}
	return b.Usage.Searches
}

// citation is what an answer cites whose provider searched the web.
func (b *Behaviour) citation() string {
	if b.searches() == 0 {
		return ""
	}
	return `{"type":"url_citation","url_citation":{"start_index":0,"end_index":5,"title":"A page","url":"https://a.example/"}}`
}

func (b *Behaviour) reasoning() string {
	var t strings.Builder
	for _, thought := range slices.Concat(b.Thoughts, b.Between) {
		t.WriteString(thought.Text)
	}
	return t.String()
}

func (b *Behaviour) openAIFinish() string {
	if b.Stop != "" {
		return b.Stop
	}
	if len(b.ToolCalls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func openAIUsage(u Usage) string {
	in := u.Input + u.Cached + u.CacheWrite5m + u.CacheWrite1h
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":%d,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`,
		in, u.Output, in+u.Output, u.Cached, u.Reasoning)
}

func completionID(n int64) string { return "chatcmpl-" + opaque(fmt.Sprint("completion", n), 29) }

// stream is the role chunk, content, the finish chunk, the usage chunk if it was asked for, and [DONE].
func (openAI) stream(q *asked, b *Behaviour, n int64) []frame {
	c := chunker{
		head: fmt.Sprintf(`{"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,"service_tier":%s,"system_fingerprint":"fp_fake","choices":[`,
			quote(completionID(n)), openAICreated, quote(or(b.AnswerModel, q.model)), quote(b.tier())),
		tail: "]" + extra(b) + "}\n\n",
	}
	if q.includeUsage {
		c.tail = `],"usage":null` + extra(b) + "}\n\n"
	}
	for i := range q.choices {
		c.choice(b, i, n)
	}
	if q.includeUsage && (b.Usage == nil || !b.Usage.Missing) {
		c.frames = append(c.frames, frame{usage: true, data: "data: " + c.head + `],"usage":` + openAIUsage(b.count(q)) + extra(b) + "}\n\n"})
	}
	return append(c.frames, frame{data: "data: [DONE]\n\n", last: true})
}

// chunker collects the chunks of one stream.
type chunker struct {
	head, tail string
	frames     []frame
}

func (c *chunker) add(index int, token bool, finish, delta string) {
	c.frames = append(c.frames, frame{token: token, data: fmt.Sprintf(`data: %s{"index":%d,"delta":%s,"logprobs":null,"finish_reason":%s}%s`, c.head, index, delta, finish, c.tail)})
}

func (c *chunker) thoughts(index int, of []Thought) {
	for i := range of {
		for _, p := range of[i].pieces() {
			c.add(index, true, "null", `{"content":null,"reasoning_content":`+quote(p)+`}`)
		}
	}
}

func (c *chunker) choice(b *Behaviour, index int, n int64) {
	first := `{"role":"assistant","content":"","refusal":null}`
	text := b.pieces()
	if len(text) == 0 {
		first = `{"role":"assistant","content":null,"refusal":null}`
	}
	c.add(index, false, "null", first)
	c.thoughts(index, b.Thoughts)
	for _, p := range text {
		c.add(index, true, "null", `{"content":`+quote(p)+`}`)
	}
	c.thoughts(index, b.Between)
	for i := range b.ToolCalls {
		t := &b.ToolCalls[i]
		c.add(index, true, "null", fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, i, quote(t.callID("call_", n, i)), quote(t.Name)))
		for _, p := range t.pieces() {
			c.add(index, true, "null", fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(p)))
		}
	}
	if cited := b.citation(); cited != "" {
		c.add(index, false, "null", `{"annotations":[`+cited+`]}`)
	}
	c.add(index, false, quote(b.openAIFinish()), "{}")
}
