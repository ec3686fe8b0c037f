package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// session is an agent's conversation: a system prompt, tools, and turns of a question, a call, its result and an answer. What the
// model said is sent back as it came.
type session struct {
	model string
	said  []json.RawMessage
	kind  sessionKind
}

// sessionKind is how a client writes its sessions.
type sessionKind struct {
	path, header string
	user, result string // a message; the mark of its end goes with it
	body         func(model string, messages []json.RawMessage) string
	read         func(t *testing.T, body string) turnRead
}

// turnRead is an answer as the client reads it.
type turnRead struct {
	again         []json.RawMessage // what of it stands in the requests that follow
	call          string            // the id of its call; "" if it made none
	total, cached int               // tokens of the request
}

const callName = "look"

var sessionTool = `"name":"look","description":"` + strings.Repeat("Looks at one place of the market. ", 20) + `"`

const toolSchema = `{"type":"object","properties":{"at":{"type":"integer"},"deep":{"type":"boolean"}},"required":["at"]}`

var anthropicSession = sessionKind{
	path: "/messages", header: "anthropic-version: 2023-06-01",
	user:   `{"role":"user","content":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}]}`,
	result: `{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q,"cache_control":{"type":"ephemeral"}}]}`,
	body: func(model string, messages []json.RawMessage) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":3000,"thinking":{"type":"enabled","budget_tokens":1024},"tools":[{%s,"input_schema":%s}],`+
			`"system":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"messages":%s}`,
			model, sessionTool, toolSchema, lengthy("Messages at "+model), listed(messages))
	},
	read: func(t *testing.T, body string) (r turnRead) {
		t.Helper()
		var m struct {
			Content json.RawMessage
			Usage   struct {
				Input   int `json:"input_tokens"`
				Written int `json:"cache_creation_input_tokens"`
				Cached  int `json:"cache_read_input_tokens"`
			}
		}
		var blocks []struct{ Type, ID string }
		if err := json.Unmarshal([]byte(body), &m); err != nil || json.Unmarshal(m.Content, &blocks) != nil {
			t.Fatal(err, body)
		}
		for _, b := range blocks {
			if b.Type == "tool_use" {
				r.call = b.ID
			}
		}
		r.total, r.cached = m.Usage.Input+m.Usage.Written+m.Usage.Cached, m.Usage.Cached
		r.again = []json.RawMessage{json.RawMessage(`{"role":"assistant","content":` + string(m.Content) + `}`)}
		return r
	},
}

var chatSession = sessionKind{
	path:   "/chat/completions",
	user:   `{"role":"user","content":[{"type":"text","text":%q}]}`,
	result: `{"role":"tool","tool_call_id":%q,"content":%q}`,
	body: func(model string, messages []json.RawMessage) string {
		return fmt.Sprintf(`{"model":%q,"tools":[{"type":"function","function":{%s,"parameters":%s}}],"messages":[{"role":"system","content":%q},%s}`,
			model, sessionTool, toolSchema, lengthy("Chat Completions at "+model), listed(messages)[1:])
	},
	read: func(t *testing.T, body string) (r turnRead) {
		t.Helper()
		var c struct {
			Choices []struct{ Message json.RawMessage }
			Usage   struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		var m struct {
			Calls []struct{ ID string } `json:"tool_calls"`
		}
		if err := json.Unmarshal([]byte(body), &c); err != nil || len(c.Choices) != 1 || json.Unmarshal(c.Choices[0].Message, &m) != nil {
			t.Fatal(err, body)
		}
		if len(m.Calls) > 0 {
			r.call = m.Calls[0].ID
		}
		r.total, r.cached = c.Usage.Prompt, c.Usage.Details.Cached
		r.again = []json.RawMessage{c.Choices[0].Message}
		return r
	},
}

// markedChat is a client of OpenAI's format that marks what Anthropic shall cache.
var markedChat = sessionKind{
	path:   chatSession.path,
	user:   anthropicSession.user,
	result: `{"role":"tool","tool_call_id":%q,"content":%q,"cache_control":{"type":"ephemeral"}}`,
	body: func(model string, messages []json.RawMessage) string {
		plain := chatSession.body(model, messages)
		return strings.Replace(plain, `{"model"`, `{"reasoning_effort":"low","model"`, 1)
	},
	read: chatSession.read,
}

// responsesSession is what Codex sends.
var responsesSession = sessionKind{
	path:   "/responses",
	user:   `{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}`,
	result: `{"type":"function_call_output","call_id":%q,"output":%q}`,
	body: func(model string, messages []json.RawMessage) string {
		return fmt.Sprintf(`{"model":%q,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"a","tools":[{"type":"function",%s,"parameters":%s}],`+
			`"instructions":%q,"input":%s}`, model, sessionTool, toolSchema, lengthy("Responses at "+model), listed(messages))
	},
	read: func(t *testing.T, body string) (r turnRead) {
		t.Helper()
		var a struct {
			Output []json.RawMessage
			Usage  struct {
				Input   int `json:"input_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"input_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatal(err, body)
		}
		for _, raw := range a.Output {
			var item struct {
				Type string
				Call string `json:"call_id"`
			}
			if err := json.Unmarshal(raw, &item); err != nil {
				t.Fatal(err, body)
			}
			if item.Type == "function_call" {
				r.call = item.Call
			}
		}
		r.total, r.cached, r.again = a.Usage.Input, a.Usage.Details.Cached, a.Output
		return r
	},
}

func listed(messages []json.RawMessage) string {
	b, err := json.Marshal(messages)
	if err != nil {
		panic(err) // every message was valid JSON when it came
	}
	return string(b)
}

// unmarked is a message without its mark: only the newest message of a session has one.
func unmarked(message json.RawMessage) json.RawMessage {
	return json.RawMessage(strings.Replace(string(message), `,"cache_control":{"type":"ephemeral"}`, "", 1))
}

// held holds a session of so many turns and says of each request how much it had, and how much of that the provider knew.
func (k sessionKind) held(t *testing.T, model string, turns int, send func(path, header, body string) string) (requests []turnRead) {
	t.Helper()
	s := session{model: model, kind: k}
	for i := range turns {
		r := s.say(t, fmt.Sprintf(k.user, fmt.Sprintf("question %d: %s", i, strings.Repeat("what now? ", 20))), send)
		requests = append(requests, r)
		if r.call == "" {
			t.Fatalf("question %d: no call was made", i)
		}
		r = s.say(t, fmt.Sprintf(k.result, r.call, fmt.Sprintf("seen at %d: %s", i, strings.Repeat("1,234.5 ", 30))), send)
		requests = append(requests, r)
	}
	return requests
}

func (s *session) say(t *testing.T, message string, send func(path, header, body string) string) turnRead {
	t.Helper()
	body := s.kind.body(s.model, append(slices.Clip(s.said), json.RawMessage(message)))
	r := s.kind.read(t, send(s.kind.path, s.kind.header, body))
	s.said = append(append(s.said, unmarked(json.RawMessage(message))), r.again...)
	return r
}

var cachedShareCases = []struct {
	name  string
	kind  sessionKind
	to    fake.Dialect
	model string
	same  bool // the provider speaks the client's dialect
}{
	{"Messages", anthropicSession, fake.Anthropic, "claude", true},
	{"Chat Completions to Anthropic", markedChat, fake.Anthropic, "claude", false},
	{"Chat Completions", chatSession, fake.OpenAI, "gpt", true},
	{"Responses", responsesSession, fake.OpenAI, "gpt", true},
}

// TestK27FiftyTurnsKeepTheirCachedShare: the provider finds as much of each request in its cache as it does for a client that asks it
// without the gateway, and a client of another dialect finds all that it has sent before. A session has fifty turns; that of
// a model with a second provider has fifteen, too few for the share, and fifty with BARDO_SOAK=1.
func TestK27FiftyTurnsKeepTheirCachedShare(t *testing.T) {
	t.Parallel()
	const turns, fewer, least = 50, 15, 1024
	provider := func(d fake.Dialect, name string) *fake.Server {
		p := fake.Start(t, fake.Config{Dialect: d, Name: name, MinCache: least})
		b := fake.Behaviour{
			ToolCalls: []fake.ToolCall{{Name: callName, Args: `{"deep": true,"at":7}`}},
			Answered:  &fake.Behaviour{Text: strings.Repeat("So it stands. ", 10)},
		}
		if d == fake.Anthropic {
			b.Thoughts = []fake.Thought{{Text: "I look first."}}
		}
		p.Behave(b)
		return p
	}
	const thinks = "capabilities: [tools, visible_thinking], thinking: {control: budget}"
	model := func(id string) []gateway.Model {
		return []gateway.Model{{ID: id, Price: "{input: 1, output: 2}", More: thinks}}
	}
	g := gateway.Run(t, gateway.Options{Config: patient, Providers: []gateway.Provider{
		{ID: "a", Format: "anthropic", Fake: provider(fake.Anthropic, "a"), Models: append(model("claude-alone"), model("claude-backed")...)},
		{ID: "b", Format: "anthropic", Fake: provider(fake.Anthropic, "b"), Models: model("claude-backed")},
		{ID: "o", Fake: provider(fake.OpenAI, "o"), More: "responses: true", Models: append(model("gpt-alone"), model("gpt-backed")...)},
		{ID: "q", Fake: provider(fake.OpenAI, "q"), More: "responses: true", Models: model("gpt-backed")},
	}})
	tests := cachedShareCases
	for _, tt := range tests {
		for _, behind := range []string{"-alone", "-backed"} {
			turns := turns
			if behind == "-backed" && os.Getenv("BARDO_SOAK") == "" {
				turns = fewer
			}
			t.Run(tt.name+behind, func(t *testing.T) {
				t.Parallel()
				got := tt.kind.held(t, tt.model+behind, turns, func(path, header, body string) string {
					c := gateway.Call{Path: "/v1" + path, Body: body}
					if header != "" {
						c.Header = []string{header}
					}
					a := g.Do(t, c)
					if a.Status != http.StatusOK || a.Err != nil {
						t.Fatalf("%d %v %s", a.Status, a.Err, a.Body)
					}
					return a.Body
				})
				if share := cachedShare(got); share < 0.9 && turns > fewer {
					t.Errorf("%.1f percent of the input came from the cache", 100*share)
				}
				if !tt.same {
					everythingKnown(t, got)
					return
				}
				p := provider(tt.to, "direct")
				want := tt.kind.held(t, tt.model+behind, turns, func(path, _, body string) string { return direct(t, p, path, body) })
				for i := range want {
					if got[i].total != want[i].total || got[i].cached != want[i].cached {
						t.Fatalf("request %d: %d of %d tokens came from the cache, without the gateway %d of %d",
							i, got[i].cached, got[i].total, want[i].cached, want[i].total)
					}
				}
			})
		}
	}
}

// cachedShare is how much of all input the provider knew.
func cachedShare(requests []turnRead) float64 {
	var total, cached int
	for _, r := range requests {
		total, cached = total+r.total, cached+r.cached
	}
	return float64(cached) / float64(total)
}

// everythingKnown: each request ends with a mark, so the next one finds all of it.
func everythingKnown(t *testing.T, requests []turnRead) {
	t.Helper()
	for i := 1; i < len(requests); i++ {
		if before := requests[i-1].total; requests[i].cached != before {
			t.Fatalf("request %d: %d of %d tokens came from the cache; the request before had %d", i, requests[i].cached, requests[i].total, before)
		}
	}
}

// direct asks a provider without a gateway.
func direct(t *testing.T, p *fake.Server, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("Authorization", "Bearer "+p.Key)
	client := http.Client{Timeout: time.Minute}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %v %s", res.StatusCode, err, b)
	}
	return string(b)
}
