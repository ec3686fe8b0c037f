package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/e2e/fake/check"
)

// openAI is OpenAI Chat Completions.
type openAI struct{}

const openAICreated = 1767225600 // every answer's "created"

func (openAI) authorize(h http.Header, key string) *refusal {
	got, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		return &refusal{
			Status: http.StatusUnauthorized, Kind: "invalid_request_error", Quiet: true,
			Message: "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
		}
	}
	if got != key {
		return &refusal{
			Status: http.StatusUnauthorized, Kind: "invalid_request_error", Code: "invalid_api_key", Quiet: true,
			Message: "Incorrect API key provided: " + masked(got) + ".",
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
		quote(e.Message), quote(e.Kind), orNull(e.Param), orNull(e.Code)))
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}

func (openAI) errorFrame(e *refusal) frame {
	return frame{data: fmt.Sprintf(`data: {"error":{"message":%s,"type":%s,"param":%s,"code":%s}}`+"\n\n",
		quote(e.Message), quote(e.Kind), orNull(e.Param), orNull(e.Code))}
}

func (openAI) errorFor(status int) *refusal {
	e := &refusal{Status: status, Kind: "server_error", Message: "The server had an error while processing your request. Sorry about that!"}
	switch {
	case status == http.StatusTooManyRequests:
		e.Kind, e.Code = "requests", "rate_limit_exceeded"
		e.Message = "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s."
	case status == http.StatusServiceUnavailable:
		e.Message = "The server is currently overloaded with other requests. Sorry about that! You can retry your request, or contact us through our help center if the error persists."
	case status == http.StatusForbidden:
		e.Kind, e.Code = "invalid_request_error", "unsupported_country_region_territory"
		e.Message = "Country, region, or territory not supported"
	case status == http.StatusUnauthorized:
		e.Kind, e.Code, e.Message = "invalid_request_error", "invalid_api_key", "Incorrect API key provided."
	case status == http.StatusNotFound:
		e.Kind, e.Code, e.Message = "invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."
	case status < http.StatusInternalServerError:
		e.Kind, e.Message = "invalid_request_error", "This request is invalid."
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

func (openAI) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	o, e := check.Chat(h, body, cfg.checked())
	if e != nil {
		return nil, e
	}
	n, _ := o.Num("n")
	return &asked{
		model: o.Str("model"), stream: o.Bool("stream"), includeUsage: o.Object("stream_options").Bool("include_usage"),
		choices: max(1, int(n)), inputTokens: max(1, len(body)/4), form: check.ChatForm(o),
	}, nil
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
