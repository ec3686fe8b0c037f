package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/seedtest"
)

// randomRequest is a request of a random form to a random pair of providers.
type randomRequest struct {
	ask       ask
	header    []string
	behaviour [2]fake.Behaviour
	dialect   [2]fake.Dialect
	alone     bool // the second provider does not have the model
	call      gateway.Call
	times     int             // the second time, it may come from a cache
	providers [2]*fake.Server // of the gateway that was started last
}

// String is enough of it to repeat it by hand.
func (c *randomRequest) String() string {
	return fmt.Sprintf("%s %s %s stream=%v %s %.60q, headers %q, alone %v, %s: %s, %s: %s", c.call.Method, c.call.Path, c.ask.dialect, c.ask.stream, c.ask.more, c.ask.say, c.header, c.alone, c.dialect[0], inShort(c.behaviour[0]), c.dialect[1], inShort(c.behaviour[1]))
}

// inShort is what of a behaviour is not the usual.
func inShort(b fake.Behaviour) string {
	var all []string
	for v, i := reflect.ValueOf(b), 0; i < v.NumField(); i++ {
		if f := v.Field(i); !f.IsZero() {
			all = append(all, fmt.Sprintf("%s: %.60q", v.Type().Field(i).Name, fmt.Sprintf("%+v", reflect.Indirect(f))))
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomBehaviour is one of the ways in which providers answer or fail.
func randomBehaviour(r *rand.Rand) fake.Behaviour {
	b := fake.Behaviour{Text: pick(r, "", "short", strings.Repeat("a longer answer, with \"quotes\" and ümlauts. ", 1+r.IntN(40)))}
	switch r.IntN(12) {
	case 0:
		f := failures[r.IntN(len(failures))]
		for f.refused || f.b.Break.Kind == fake.Hang {
			f = failures[r.IntN(len(failures))]
		}
		return f.b
	case 1:
		b.Status = pick(r, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 501, 502, 503, 504, 529)
		b.RetryAfter = pick(r, "", "1", "7", "soon")
	case 2:
		b.Break = fake.Break{Kind: pick(r, fake.Reset, fake.Close, fake.ErrorEvent, fake.Stop), At: pick(r, fake.BeforeHeaders, fake.AfterHeaders, fake.AfterTokens), Tokens: r.IntN(4)}
	case 3:
		b.Raw = &fake.Raw{
			Status: pick(r, 200, 200, 201, 204, 206, 300, 304, 400, 500), Header: []string{"content-type: " + pick(r, "application/json", "text/event-stream", "text/html", "text/plain; charset=latin-1")},
			Body: pick(r, "", "{", "null", "[]", "{}", `{"choices":[]}`, `{"error":"x"}`, `{"error":{"message":"m","code":"insufficient_quota"}}`, "data: {}\n\n", "data: [DONE]\n\n", "event: ping\ndata: {}\n\n", "\n\n\n", "plain"),
		}
	case 4:
		b.ToolCalls = []fake.ToolCall{{Name: "look", Args: pick(r, "", "{}", `{"a":1}`, `{"b":"ü\u0000"`), Pieces: 1 + r.IntN(4)}}
	case 5:
		b.Thoughts = []fake.Thought{{Text: "it thinks about it"}}
	case 6:
		b.Usage = &fake.Usage{Input: r.IntN(5000), Cached: r.IntN(100), Output: r.IntN(2000), Reasoning: r.IntN(3), Missing: r.IntN(3) == 0, OnlyAtEnd: r.IntN(2) == 0}
	case 7:
		b.Encoding = pick(r, "gzip", "br")
	case 8:
		b.Shape = fake.Shape{LineEnd: pick(r, "", "\r\n", "\r"), NoSpace: r.IntN(2) == 0, Cut: r.IntN(9), Unterminated: r.IntN(3) == 0, NoTerminator: r.IntN(3) == 0}
	case 9:
		b.Header = []string{pick(r, "x-provider: kept?", "x-ratelimit-remaining-requests: 3", "-content-type", "retry-after: 3", "set-cookie: a=b")}
		b.Stop = pick(r, "", "length", "max_tokens", "content_filter", "refusal", "odd")
	case 10:
		b.Extra = `"x_new":{"a":[1,2,{"b":null}]}`
		b.AnswerModel = pick(r, "", "another-model")
	}
	return b
}

func newRandomRequest(r *rand.Rand, n int) *randomRequest {
	dialects := []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini}
	c := &randomRequest{alone: r.IntN(3) == 0, times: 1, ask: ask{dialect: pick(r, dialects...), model: fmt.Sprintf("model-%d", n), stream: r.IntN(2) == 0}}
	if r.IntN(4) == 0 {
		c.times = 2
	}
	for i := range c.dialect {
		c.dialect[i] = pick(r, dialects...)
		c.behaviour[i] = randomBehaviour(r)
	}
	c.ask.more = pick(r, randomMembers[c.ask.dialect]...)
	c.ask.say = pick(r, "", "hi", strings.Repeat("The order left the warehouse at 09:30. ", r.IntN(3000)), "my mail is jane.doe@example.com", "üöä \x01 \"quoted\"")
	c.header = pick(r, nil, nil, []string{"x-bardo-cache: no-store"}, []string{"x-bardo-subsystem: risk"}, []string{"accept-encoding: gzip"}, []string{"x-bardo-pipeline: minimal"},
		[]string{"x-bardo-subsystem: nonsense"}, []string{"x-bardo-privacy: tee"}, []string{"x-bardo-max-cost: 0.000001"}, []string{"content-encoding: gzip"}, []string{"content-type: text/plain"})
	c.call = c.ask.call(c.header...)
	c.mutate(r)
	return c
}

const (
	oneInteger = `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`
	oneTool    = `"tools":[{"name":"look","description":"looks","input_schema":` + oneInteger + `}]`
)

// randomMembers are what requests have besides the model and the text.
var randomMembers = map[fake.Dialect][]string{
	fake.OpenAI: {
		"", `"temperature":0.5`, `"temperature":9`, `"unknown_member":{"a":[]}`, `"tools":[]`, `"metadata":{"user_id":"u"}`, `"stop":"x"`, `"top_p":"much"`, `"n":2`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":` + oneInteger + `}}`, `"response_format":{"type":"json_object"}`, `"reasoning_effort":"high"`,
		`"tools":[{"type":"function","function":{"name":"look","parameters":` + oneInteger + `}}]`, `"max_tokens":1`, `"stream_options":{"include_usage":true}`,
	},
	fake.Anthropic: {
		"", `"temperature":0.5`, `"system":"be brief"`, `"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]`, oneTool, oneTool + `,"tool_choice":{"type":"tool","name":"look"}`,
		`"thinking":{"type":"enabled","budget_tokens":2000}`, `"top_k":-1`, `"metadata":{"user_id":"u"}`, `"stop_sequences":[1]`,
	},
	fake.Gemini: {
		"", `"generationConfig":{"temperature":0.1}`, `"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"a":{"type":"INTEGER"}}}}`,
		`"systemInstruction":{"parts":[{"text":"s"}]}`, `"safetySettings":5`,
	},
}

// mutate makes one request of three an unusual one.
func (c *randomRequest) mutate(r *rand.Rand) {
	switch r.IntN(12) {
	case 0: // cut, doubled, or changed at one place
		b, at := c.call.Body, r.IntN(len(c.call.Body))
		c.call.Body = pick(r, b[:at], b+b, b[:at]+pick(r, "\x00", "\xff", "}", `"`, "9")+b[at+1:])
	case 1:
		c.call.Path = pick(r, "/v1/responses", "/v1/messages/count_tokens", "/v1/embeddings", "/v1/completions", "/v1/nothing", "/v1/chat/completions/", "/v1//chat/completions", "/v1/models",
			"/v1/chat/completions?beta=true")
		if c.call.Path == "/v1/responses" {
			c.call.Body = fmt.Sprintf(`{"model":%q,"stream":%v,"input":%q}`, c.ask.model, c.ask.stream, c.ask.say+"hi")
		}
	case 2:
		c.call.Method = pick(r, http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodHead)
	case 3:
		c.call.Key = "bardo_sk_" + strings.Repeat("x", 40)
	}
}

// variable is what differs from one request to the next in answers and records.
var variable = regexp.MustCompile(`(req|chatcmpl|msg|resp|call|toolu|gen|fc|rs|key|acc|conv|job|trace)[-_][A-Za-z0-9_-]{4,}|\d{4}-\d\d-\d\dT[0-9:.]+Z|"[a-z_]*(_ms|_at|created|createTime|responseId)":[^,}\]]+|dur=[0-9.]+(;late)?|"id": ?"[A-Za-z0-9_-]{8,}"|127\.0\.0\.1:\d+|/tmp/[A-Za-z0-9/._-]+`)

func withoutVariable(s string) string { return variable.ReplaceAllString(s, "~") }

// withoutVariableJSON is a JSON value without what varies.
func withoutVariableJSON(v any) any {
	switch v := v.(type) {
	case string:
		return withoutVariable(v)
	case []any:
		for i := range v {
			v[i] = withoutVariableJSON(v[i])
		}
	case map[string]any:
		for k := range v {
			if strings.HasSuffix(k, "_ms") || strings.HasSuffix(k, "_at") || slices.Contains([]string{"time", "created", "trace_id", "cache_entry"}, k) {
				delete(v, k) // durations below a millisecond are left out
				continue
			}
			v[k] = withoutVariableJSON(v[k])
		}
	}
	return v
}

// outcome is what a client and an operator see of a request, without what varies.
type outcome struct {
	Status int
	Broken bool
	Header map[string]string
	Body   string
	Record map[string]any
}

func outcomeOf(t *testing.T, g *gateway.Gateway, got gateway.Answer) outcome {
	t.Helper()
	o := outcome{Status: got.Status, Broken: got.Err != nil, Header: map[string]string{}, Body: withoutVariable(got.Body)}
	for name, values := range got.Header {
		switch v := strings.Join(values, ","); {
		case slices.Contains([]string{"Date", "Age", "X-Request-Id"}, name) || strings.Contains(name, "Latency") || strings.Contains(name, "Duration") || strings.HasPrefix(name, "X-Ratelimit-Reset"):
		case name == "X-Bardo-Schema": // what is known of a stream when its head is sent depends on what has come by then
			o.Header[name], _, _ = strings.Cut(v, ";")
		case name == "X-Bardo-Balance" || strings.HasPrefix(name, "X-Ratelimit-Remaining"):
			o.Header[name] = "~"
		default:
			o.Header[name] = withoutVariable(v)
		}
	}
	if id := got.Header.Get("X-Request-Id"); id != "" {
		a := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/requests/" + id})
		if json.Unmarshal([]byte(a.Body), &o.Record) != nil {
			o.Record = map[string]any{"answer": withoutVariable(a.Body)}
		}
		withoutVariableJSON(o.Record)
	}
	return o
}

// differences are what differs between two outcomes, one of each shape.
func (o outcome) differences(p outcome) (all []string) {
	note := func(what string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			all = append(all, fmt.Sprintf("%s:\n\text_proc %.600v\n\tmodule   %.600v", what, a, b))
		}
	}
	note("status", o.Status, p.Status)
	note("broken", o.Broken, p.Broken)
	note("body", o.Body, p.Body)
	for _, k := range slices.Sorted(maps.Keys(merged(o.Header, p.Header))) {
		note("header "+k, o.Header[k], p.Header[k])
	}
	for _, k := range slices.Sorted(maps.Keys(merged(o.Record, p.Record))) {
		note("record "+k, o.Record[k], p.Record[k])
	}
	return all
}

// fault is what nobody should see, whatever providers and clients do; "" for nothing of that kind.
func (o outcome) fault(c *randomRequest) string {
	ends := map[string]string{"/v1/chat/completions": "[DONE]", "/v1/messages": "message_stop"}[c.call.Path]
	streams := strings.HasPrefix(o.Header["Content-Type"], "text/event-stream")
	switch {
	case o.Status == http.StatusInternalServerError:
		return "an internal error"
	case o.Broken:
		return "an answer that breaks off"
	case o.Status >= http.StatusBadRequest && c.call.Method != http.MethodHead:
		var e struct{ Error json.RawMessage }
		if json.Unmarshal([]byte(o.Body), &e) != nil || len(e.Error) < 3 {
			return "an error without its form"
		}
	case streams && !strings.Contains(o.Body, ends) && !strings.Contains(o.Body, `"error"`):
		return "a stream without its end"
	}
	return ""
}

func merged[V any](a, b map[string]V) map[string]V {
	m := make(map[string]V, len(a))
	maps.Copy(m, a)
	maps.Copy(m, b)
	return m
}

// TestBothShapesOfTheDataPathAgree sends the same random requests, to providers that answer and fail at random, through both shapes. Clients and operators must
// see the same, and none of what nobody should see. BARDO_SOAK=1 makes it longer; BARDO_SEED is the one seed to repeat.
func TestBothShapesOfTheDataPathAgree(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { compareShapes(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func compareShapes(t *testing.T, r *rand.Rand) {
	t.Helper()
	requests := make([]*randomRequest, 60)
	for i := range requests {
		requests[i] = newRandomRequest(r, i)
	}
	config, key := hasty+pick(r, shapeConfigs...), pick(r, nil, []string{"--name", "poor", "--balance-usd", "0.02"}, []string{"--name", "rich", "--balance-usd", "100"})
	beside, inside := gatewayOfShape(t, "extproc", config, requests), gatewayOfShape(t, "module", config, requests)
	if key != nil {
		beside.Key, inside.Key = beside.CreateKey(t, key...).Key, inside.CreateKey(t, key...).Key
	}
	for _, c := range requests {
		for range c.times {
			one, other := outcomeOf(t, beside, beside.Do(t, c.call)), outcomeOf(t, inside, inside.Do(t, c.call))
			if d := one.differences(other); len(d) > 0 {
				t.Errorf("%s\n%s", c, strings.Join(d, "\n"))
			}
			if why := one.fault(c); why != "" {
				t.Errorf("%s: %s\n%d %.1000s\n%v", why, c, one.Status, one.Body, one.Record["attempt_log"])
			}
		}
	}
	beside.AssertSound(t)
	inside.AssertSound(t)
}

// shapeConfigs are what the configuration has besides.
var shapeConfigs = []string{
	"", "pipeline: {pii: {policy: mask, secret: same}, injection: {policy: block, on_error: allow}}\nmodels: {injection: \"off\"}\n",
	"pipeline: {default: full, hash: all, pii: {policy: block}}\nmodels: {injection: \"off\"}\n", "pipeline: {default: minimal}\n",
}

// gatewayOfShape is a gateway with two providers for each request, so that none disturbs another's health.
func gatewayOfShape(t *testing.T, shape, config string, requests []*randomRequest) *gateway.Gateway {
	t.Helper()
	o := gateway.Options{Config: config, DataPath: shape}
	for i, c := range requests {
		for k, d := range c.dialect {
			p := fake.Start(t, fake.Config{Dialect: d, Name: fmt.Sprintf("p%d-%d", i, k)})
			p.Behave(c.behaviour[k])
			c.providers[k] = p
			model := c.ask.model
			if k == 1 && c.alone {
				model = "other-" + model
			}
			o.Providers = append(o.Providers, gateway.Provider{ID: fmt.Sprintf("p%d-%d", i, k), Fake: p, Format: string(d), Models: models(model, "up")})
		}
	}
	return gateway.Run(t, o)
}
