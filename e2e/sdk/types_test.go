package sdk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// typed is an answer for types_driver.py.
type typed struct {
	Client, Provider, Case string
	Stream                 bool
	Body                   string
}

// aCall is a call of the tool that each request brings.
var aCall = fake.ToolCall{Name: "look", Args: `{"a":1}`, Pieces: 3}

// translated are answers of providers, whole and streamed, all of which must fit the types of each client's SDK.
var translated = map[string]fake.Behaviour{
	"text": {}, "nothing": {Text: " "}, "tool": {ToolCalls: []fake.ToolCall{aCall}}, "three tools": {Text: "I look.", ToolCalls: []fake.ToolCall{aCall, aCall, {Name: "look"}}},
	"thoughts": {Thoughts: []fake.Thought{{Text: "so"}}, Text: "it is"}, "thoughts and a tool": {Thoughts: []fake.Thought{{Text: "so"}}, ToolCalls: []fake.ToolCall{aCall}},
	"thoughts between": {Thoughts: []fake.Thought{{Text: "so"}}, Text: "it is", Between: []fake.Thought{{Text: "or not"}}, ToolCalls: []fake.ToolCall{aCall}},
	"usage":            {Usage: &fake.Usage{Input: 100, Cached: 40, Output: 20, Reasoning: 5}}, "no usage": {Usage: &fake.Usage{Missing: true}},
	"length": {Stop: "length"}, "max_tokens": {Stop: "max_tokens"}, "MAX_TOKENS": {Stop: "MAX_TOKENS"}, "content_filter": {Stop: "content_filter"}, "SAFETY": {Stop: "SAFETY"}, "refusal": {Stop: "refusal"},
	"pause_turn": {Stop: "pause_turn"}, "stop_sequence": {Stop: "stop_sequence"}, "odd": {Stop: "odd"},
	"error in the middle": {Tokens: 5, Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterTokens, Tokens: 2}}, "reset": {Tokens: 5, Break: fake.Break{Kind: fake.Reset, At: fake.AfterTokens, Tokens: 2}},
}

// requests are the paths and bodies of the clients, of a model and streamed or not; thinking is the second.
var typedRequests = map[string][2]string{
	"openai": {
		`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]}`,
		`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"hi"}],"reasoning_effort":"high"}`,
	},
	"responses": {
		`{"model":%q,"stream":%v,"input":"hi","tools":[{"type":"function","name":"look","strict":false,"parameters":{"type":"object"}}]}`,
		`{"model":%q,"stream":%v,"input":"hi","reasoning":{"effort":"high","summary":"auto"}}`,
	},
	"anthropic": {
		`{"model":%q,"stream":%v,"max_tokens":4000,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`,
		`{"model":%q,"stream":%v,"max_tokens":4000,"messages":[{"role":"user","content":"hi"}],"thinking":{"type":"enabled","budget_tokens":2000}}`,
	},
	"gemini": {
		`{"contents":[{"parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"look","description":"looks"}]}]}`,
		`{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1000}}}`,
	},
}

// typedCall is one of a client's requests.
func typedCall(client, model string, stream bool, n int) gateway.Call {
	form := typedRequests[client][n]
	switch client {
	case "gemini":
		method := "generateContent"
		if stream {
			method = "streamGenerateContent?alt=sse"
		}
		return gateway.Call{Path: "/v1beta/models/" + model + ":" + method, Body: form}
	case "anthropic":
		return gateway.Call{Path: "/v1/messages", Body: fmt.Sprintf(form, model, stream)}
	case "responses":
		return gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(form, model, stream)}
	}
	return gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(form, model, stream)}
}

// TestAnswersFitTheTypesOfTheSDKs: what comes of a provider of another format is exactly of the types that the vendors' SDKs for Python have, each event of a stream,
// too. (The SDKs' clients do not check that.) What a provider of the client's own format says passes as it is.
func TestAnswersFitTheTypesOfTheSDKs(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: settings}
	providers := make(map[fake.Dialect]*fake.Server, 3)
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		p := fake.Start(t, fake.Config{Dialect: d, Name: "of-" + string(d)})
		providers[d] = p
		o.Providers = append(o.Providers, gateway.Provider{ID: "of-" + string(d), Fake: p, Format: string(d), Models: []gateway.Model{{ID: "m-" + string(d)}}})
	}
	g := gateway.Run(t, o)
	var lines strings.Builder
	write := json.NewEncoder(&lines)
	for what, b := range translated {
		for d, p := range providers {
			p.Behave(b)
			for client := range typedRequests {
				if client == string(d) {
					continue
				}
				for n := range 4 {
					got := g.Do(t, typedCall(client, "m-"+string(d), n%2 == 1, n/2))
					if got.Status == http.StatusOK {
						_ = write.Encode(typed{client, string(d), what, n%2 == 1, got.Body})
					} else if b.Break == (fake.Break{}) {
						t.Errorf("%s, %s, %s: %d %s", client, d, what, got.Status, got.Body)
					}
				}
			}
		}
	}
	file := filepath.Join(t.TempDir(), "answers.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, err := runDriver(t, python("types_driver.py")(t), "ANSWERS="+file)
	if err != nil || !strings.HasPrefix(out, "ok ") {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	t.Log(out)
}
