package fake

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"bardo.money/gateway/e2e/fake/check"
	"bardo.money/gateway/internal/rawjson"
)

// anthropic is Anthropic Messages.
type anthropic struct {
	given *sync.Map // the outlines of answers that thought and called tools, by the ids of their first calls; nil: not kept
}

func (anthropic) authorize(h http.Header, key string) *refusal {
	e := &refusal{Status: http.StatusUnauthorized, Kind: "authentication_error"}
	got := h.Get("X-Api-Key")
	switch {
	case got == key:
		return nil
	case got != "":
		e.Message = "invalid x-api-key"
	case h.Get("Authorization") == "Bearer "+key:
		return nil
	case h.Get("Authorization") != "":
		e.Message = "Invalid bearer token"
	default:
		e.Message = "x-api-key header is required"
	}
	return e
}

func (a anthropic) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	p := cfg.checked()
	o, e := check.Messages(h, body, p, a.outline)
	if e != nil {
		return nil, e
	}
	return &asked{
		signer: p.Signer,
		model:  o.Str("model"), stream: o.Bool("stream"), choices: 1, inputTokens: max(1, len(body)/4),
		omitThinking: o.Object("thinking").Str("display") == "omitted", form: check.MessagesForm(o),
	}, nil
}

// countTokens answers /messages/count_tokens.
func countTokens(h http.Header, body []byte, cfg *Config) ([]byte, *refusal) {
	if e := check.CountTokens(h, body, cfg.checked()); e != nil {
		return nil, e
	}
	return []byte(fmt.Sprintf(`{"input_tokens":%d}`, max(1, len(body)/4))), nil
}

// outline is what an answer consisted of, by the id of its first call.
func (a anthropic) outline(call string) (outline string, ok bool) {
	if a.given == nil {
		return "", false
	}
	was, ok := a.given.Load(call)
	outline, _ = was.(string)
	return outline, ok
}

// remember keeps what an answer consists of that thinks and calls tools.
func (a anthropic) remember(q *asked, b *Behaviour, n int64) {
	if a.given == nil || len(b.Thoughts)+len(b.Between) == 0 || len(b.ToolCalls) == 0 {
		return
	}
	var blocks []object
	for _, text := range b.blocks(q, n) {
		block, err := rawjson.Parse([]byte(text))
		if err != nil { // broken on purpose
			return
		}
		blocks = append(blocks, block)
	}
	a.given.Store(b.ToolCalls[0].callID("toolu_01", n, 0), check.Outline(blocks))
}

func (anthropic) headers(h http.Header, id string) {
	h.Set("Request-Id", id)
	h.Set("Anthropic-Organization-Id", "7d4c0f5e-0000-4000-8000-000000000001")
	for name, v := range map[string]string{"Requests": "4000", "Tokens": "400000", "Input-Tokens": "400000", "Output-Tokens": "80000"} {
		h.Set("Anthropic-Ratelimit-"+name+"-Limit", v)
		h.Set("Anthropic-Ratelimit-"+name+"-Remaining", v)
		h.Set("Anthropic-Ratelimit-"+name+"-Reset", "2030-01-01T00:00:00Z")
	}
	h.Set("Via", "1.1 google")
}

func (anthropic) refusal(e *refusal, id string) []byte {
	return []byte(fmt.Sprintf(`{"type":"error","error":{"type":%s,"message":%s},"request_id":%s}`, quote(e.Kind), quote(e.Message), quote(id)))
}

func (anthropic) errorFrame(e *refusal) frame {
	return event("error", fmt.Sprintf(`{"type":"error","error":{"type":%s,"message":%s}}`, quote(e.Kind), quote(e.Message)))
}

var anthropicErrors = map[int]refusal{
	http.StatusBadRequest:            {Kind: "invalid_request_error", Message: "This request is invalid."},
	http.StatusUnauthorized:          {Kind: "authentication_error", Message: "invalid x-api-key"},
	http.StatusPaymentRequired:       {Kind: "billing_error", Message: "Your credit balance is too low to access the Anthropic API."},
	http.StatusForbidden:             {Kind: "permission_error", Message: "Your account does not have access to this resource."},
	http.StatusNotFound:              {Kind: "not_found_error", Message: "Not found"},
	http.StatusRequestEntityTooLarge: {Kind: "request_too_large", Message: "Request exceeds the maximum size"},
	http.StatusTooManyRequests:       {Kind: "rate_limit_error", Message: "This request would exceed your organization's rate limit of 4,000 requests per minute."},
	http.StatusInternalServerError:   {Kind: "api_error", Message: "Internal server error"},
	http.StatusGatewayTimeout:        {Kind: "timeout_error", Message: "Request timed out."},
	529:                              {Kind: "overloaded_error", Message: "Overloaded"},
}

func (anthropic) errorFor(status int) *refusal { return refusalOf(anthropicErrors, status) }

func (anthropic) models(cfg *Config) []byte {
	rows := make([]string, 0, len(cfg.Models))
	for _, m := range cfg.Models {
		rows = append(rows, fmt.Sprintf(`{"type":"model","id":%s,"display_name":%s,"created_at":"2025-02-19T00:00:00Z"}`, quote(m), quote(m)))
	}
	first, last := "null", "null"
	if len(rows) > 0 {
		first, last = quote(cfg.Models[0]), quote(cfg.Models[len(rows)-1])
	}
	return []byte(`{"data":[` + strings.Join(rows, ",") + `],"has_more":false,"first_id":` + first + `,"last_id":` + last + `}`)
}

func messageID(n int64) string { return "msg_01" + opaque(fmt.Sprint("message", n), 22) }

// blocks are the content of an answer.
func (b *Behaviour) blocks(q *asked, n int64) []string {
	var blocks []string
	for i := range b.Thoughts {
		blocks = append(blocks, b.Thoughts[i].block(q))
	}
	if text := strings.Join(b.pieces(), ""); text != "" {
		blocks = append(blocks, `{"type":"text","text":`+quote(text)+`}`)
	}
	for i := range b.Between {
		blocks = append(blocks, b.Between[i].block(q))
	}
	for i := range b.ToolCalls {
		c := &b.ToolCalls[i]
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(c.callID("toolu_01", n, i)), quote(c.Name), c.input()))
	}
	return blocks
}

func (a anthropic) body(q *asked, b *Behaviour, n int64) []byte {
	a.remember(q, b, n)
	usage := ""
	if b.Usage == nil || !b.Usage.Missing {
		usage = `,"usage":` + anthropicUsage(b.count(q))
	}
	return []byte(fmt.Sprintf(`{"model":%s,"id":%s,"type":"message","role":"assistant","content":[%s],"stop_reason":%s,"stop_sequence":null%s%s}`,
		quote(or(b.AnswerModel, q.model)), quote(messageID(n)), strings.Join(b.blocks(q, n), ","), quote(b.anthropicStop()), usage, extra(b)))
}

func (t *Thought) block(q *asked) string {
	if t.Data != "" {
		return `{"type":"redacted_thinking","data":` + quote(t.Data) + `}`
	}
	if q.omitThinking {
		return `{"type":"thinking","thinking":"","signature":` + quote(q.signer.Seal(t.Text)) + `}`
	}
	return fmt.Sprintf(`{"type":"thinking","thinking":%s,"signature":%s}`, quote(t.Text), quote(q.signer.Sign(t.Text)))
}

func (b *Behaviour) anthropicStop() string {
	if b.Stop != "" {
		return b.Stop
	}
	if len(b.ToolCalls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func anthropicUsage(u Usage) string {
	return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d},"output_tokens":%d%s%s,"service_tier":%s}`,
		u.Input, u.CacheWrite5m+u.CacheWrite1h, u.Cached, u.CacheWrite5m, u.CacheWrite1h, u.Output, u.thinking(), u.serverTools(), quote(or(u.Tier, "standard")))
}

// serverTools is how often the provider's own tools were used.
func (u Usage) serverTools() string {
	if u.Searches == 0 {
		return ""
	}
	return fmt.Sprintf(`,"server_tool_use":{"web_search_requests":%d,"web_fetch_requests":0}`, u.Searches)
}

// thinking is the breakdown of output tokens, which only some answers carry: those whose Usage a test gave.
func (u Usage) thinking() string {
	if !u.given || u.Reasoning == 0 {
		return ""
	}
	return fmt.Sprintf(`,"output_tokens_details":{"thinking_tokens":%d}`, u.Reasoning)
}

func event(name, data string) frame {
	return frame{data: "event: " + name + "\ndata: " + data + "\n\n"}
}

// eventer collects the events of one stream.
type eventer struct {
	frames []frame
	index  int
}

func (e *eventer) add(token bool, name, data string) {
	f := event(name, data)
	f.token = token
	e.frames = append(e.frames, f)
}

func (e *eventer) open(block string) {
	e.add(false, "content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, e.index, block))
	if e.index == 0 {
		e.add(false, "ping", `{"type": "ping"}`)
	}
}

func (e *eventer) delta(delta string) {
	// The real provider pads its events with spaces, against attacks that read lengths.
	e.add(true, "content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s%*s}`, e.index, delta, len(e.frames)%7, ""))
}

func (e *eventer) stop() {
	e.add(false, "content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, e.index))
	e.index++
}

// stream is message_start, the blocks each with start, deltas and stop, message_delta and message_stop.
func (a anthropic) stream(q *asked, b *Behaviour, n int64) []frame {
	a.remember(q, b, n)
	u := b.count(q)
	start := u
	start.Output, start.given = 1, false
	if u.OnlyAtEnd || u.Missing {
		start = Usage{}
	}
	var e eventer
	e.add(false, "message_start", fmt.Sprintf(`{"type":"message_start","message":{"model":%s,"id":%s,"type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":%s%s}}`,
		quote(or(b.AnswerModel, q.model)), quote(messageID(n)), anthropicUsage(start), extra(b)))
	for i := range b.Thoughts {
		e.thought(q, &b.Thoughts[i])
	}
	if text := b.pieces(); len(text) > 0 {
		e.open(`{"type":"text","text":""}`)
		for _, p := range text {
			e.delta(`{"type":"text_delta","text":` + quote(p) + `}`)
		}
		e.stop()
	}
	for i := range b.Between {
		e.thought(q, &b.Between[i])
	}
	for i := range b.ToolCalls {
		e.call(&b.ToolCalls[i], n, i)
	}
	usage := fmt.Sprintf(`,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d%s}`,
		u.Input, u.CacheWrite5m+u.CacheWrite1h, u.Cached, u.Output, u.thinking())
	if u.Missing {
		usage = ""
	}
	e.add(false, "message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null}%s}`, quote(b.anthropicStop()), usage))
	e.add(false, "message_stop", `{"type":"message_stop"}`)
	e.frames[len(e.frames)-1].last = true
	return e.frames
}

func (e *eventer) thought(q *asked, t *Thought) {
	if t.Data != "" {
		e.open(t.block(q))
		e.stop()
		return
	}
	e.open(`{"type":"thinking","thinking":"","signature":""}`)
	signature := q.signer.Seal(t.Text)
	if !q.omitThinking {
		signature = q.signer.Sign(t.Text)
		for _, p := range t.pieces() {
			e.delta(`{"type":"thinking_delta","thinking":` + quote(p) + `}`)
		}
	}
	e.delta(`{"type":"signature_delta","signature":` + quote(signature) + `}`)
	e.stop()
}

func (e *eventer) call(c *ToolCall, n int64, i int) {
	e.open(fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, quote(c.callID("toolu_01", n, i)), quote(c.Name)))
	e.delta(`{"type":"input_json_delta","partial_json":""}`)
	for _, p := range c.pieces() {
		e.delta(`{"type":"input_json_delta","partial_json":` + quote(p) + `}`)
	}
	e.stop()
}
