package anthropic_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/anthropic"
	wire "bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

var endpoint = provider.Endpoint{Authority: "api.example", BasePath: "/v1", Key: secret.New("k")}

const body = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`

func TestACall(t *testing.T) {
	const key = "anthropic-version 2023-06-01,x-api-key k"
	betas := header.List{{Name: "anthropic-beta", Value: "a-1,b-2"}, {Name: "anthropic-version", Value: "2999-01-01"}}
	tests := []struct {
		name               string
		op                 chat.Op
		header             header.List
		query, upstream    string
		at                 provider.Endpoint
		path, sent, answer string
	}{
		{name: "a message", at: endpoint, path: "/v1/messages", sent: key, answer: body},
		{name: "no key", at: provider.Endpoint{BasePath: "/v1"}, path: "/v1/messages", sent: "anthropic-version 2023-06-01", answer: body},
		{name: "another name", upstream: "claude-x", at: endpoint, path: "/v1/messages", sent: key, answer: strings.Replace(body, `"m"`, `"claude-x"`, 1)},
		{name: "query, version and betas pass K-85", header: betas, query: "beta=true", at: endpoint, path: "/v1/messages?beta=true", sent: strings.Replace(key, "2023-06-01", "2999-01-01", 1) + ",anthropic-beta a-1,b-2", answer: body},
		{name: "a count K-85", op: chat.CountTokens, query: "beta=true", at: endpoint, path: "/v1/messages/count_tokens?beta=true", sent: key, answer: body},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := wire.Dialect{}.Decode(tt.op, tt.header, tt.query, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			call, err := anthropic.Adapter{}.Encode(nil, req, policy.Resolution{Model: "m", Upstream: tt.upstream}, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			if got := formatHeaders(call.Header); call.Path != tt.path || got != tt.sent || string(call.Body) != tt.answer {
				t.Errorf("got %s, %s, %s", call.Path, got, call.Body)
			}
		})
	}
}

func formatHeaders(l header.List) string {
	var fields []string
	for _, f := range l {
		fields = append(fields, f.Name+" "+f.Value)
	}
	return strings.Join(fields, ",")
}

// another returns a request of an OpenAI client.
func another(op chat.Op) *chat.Request {
	return &chat.Request{
		Dialect: chat.OpenAI, Op: op, Model: "m", Query: "api-version=1", Betas: []string{"b"},
		Conv: &chat.Conversation{
			Messages: []chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{{Kind: chat.PartText, Text: "hi"}}}},
			Params:   chat.Params{Effort: "low", Seed: "1"},
		},
	}
}

func TestAClientOfAnotherDialectIsTranslatedAndItsQueryStays(t *testing.T) {
	to := policy.Resolution{Model: "m", MaxOutput: 8000, AdaptiveThinking: true}
	call, err := anthropic.Adapter{}.Encode([]byte("kept "), another(chat.Generate), to, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	const want = `kept {"model":"m","max_tokens":8000,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}}`
	if string(call.Body) != want || call.Path != "/v1/messages" || call.Header.Has("anthropic-beta") || !slices.Equal(call.Degraded, []string{"seed"}) {
		t.Errorf("got %s, %s, %v, %v", call.Path, call.Body, call.Header, call.Degraded)
	}
}

func TestASchemaIsSentToModelsThatEnforceIt(t *testing.T) {
	const schema, native = `{"type":"object","additionalProperties":false}`, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false}}}`
	for _, enforces := range []bool{true, false} {
		req := another(chat.Generate)
		req.Conv.Params = chat.Params{Schema: []byte(schema)}
		call, err := anthropic.Adapter{}.Encode(nil, req, policy.Resolution{Model: "m", StructuredOutputs: enforces}, endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(call.Body), native) != enforces || slices.Contains(call.Degraded, "format") == enforces {
			t.Errorf("enforced %v: %s, %v", enforces, call.Body, call.Degraded)
		}
	}
}

func TestOnlyMessagesRequestsAreCounted(t *testing.T) {
	_, err := anthropic.Adapter{}.Encode(nil, another(chat.CountTokens), policy.Resolution{Model: "m"}, endpoint)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Errorf("got %v", err)
	}
}

func TestPingListsTheModels(t *testing.T) {
	call := anthropic.Adapter{}.Ping(endpoint)
	if call.Path != "/v1/models" || formatHeaders(call.Header) != "anthropic-version 2023-06-01,x-api-key k" || call.Body != nil {
		t.Errorf("got %+v", call)
	}
}

func TestTheAnswerIsReadInThisFormat(t *testing.T) {
	a := anthropic.Adapter{}
	for _, d := range []chat.Dialect{chat.OpenAI, chat.Anthropic} {
		if got := a.Dialect(policy.Resolution{}, endpoint, d); got != chat.Anthropic {
			t.Errorf("a client of %s is spoken to in %s", d, got)
		}
	}
	events := a.NewDecoder(&chat.Request{Stream: true}, policy.Resolution{}, endpoint, 529, nil).Decode([]byte(`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`), true)
	if len(events) != 1 || events[0].Kind != chat.Error || events[0].Err.Type != "overloaded_error" {
		t.Errorf("got %+v", events)
	}
}

func TestK16OnlySignedThinkingReachesTheAPI(t *testing.T) {
	const body = `{"model":"m","max_tokens":5,"thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[%s{"type":"text","text":"a"}]},{"role":"user","content":"so?"}]}`
	const signed, bare = `{"type":"thinking","thinking":"Hm.","signature":"c2ln"},`, `{"type":"thinking","thinking":"Hm."},`
	req, err := wire.Dialect{}.Decode(chat.Generate, nil, "", fmt.Appendf(nil, body, bare+signed))
	if err != nil {
		t.Fatal(err)
	}
	call, err := anthropic.Adapter{}.Encode(nil, req, policy.Resolution{Model: "m"}, endpoint)
	if err != nil || string(call.Body) != fmt.Sprintf(body, signed) || !slices.Equal(call.Degraded, []string{"thinking"}) {
		t.Errorf("%v %v %s", err, call.Degraded, call.Body)
	}
	amended, ok := anthropic.Adapter{}.Amend(req, policy.Resolution{Model: "m"}, endpoint, &chat.ProviderError{Status: 400, Message: "messages.1.content.0: Invalid `signature` in `thinking` block"})
	if !ok {
		t.Fatal("the refusal stands")
	}
	if call, err = (anthropic.Adapter{}).Encode(nil, req, amended, endpoint); err != nil || string(call.Body) != fmt.Sprintf(body, "") {
		t.Errorf("%v %s", err, call.Body)
	}
}

// TestModelsWithABudgetThinkBetweenCalls: clients of other formats cannot request it, and the catalog lists the models that support it.
func TestModelsWithABudgetThinkBetweenCalls(t *testing.T) {
	const body = `{"model":"m","reasoning_effort":"high","messages":[{"role":"user","content":"hi"}]%s}`
	const tools = `,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]`
	can := policy.Resolution{Model: "m", Control: policy.ControlBudget, MaxOutput: 64000, Features: []policy.Feature{policy.InterleavedThinking}}
	cannot, adapts := can, can
	cannot.Features, adapts.AdaptiveThinking = nil, true
	for _, r := range []struct {
		name  string
		to    policy.Resolution
		tools string
		want  string
	}{
		{"with tools", can, tools, "interleaved-thinking-2025-05-14"},
		{"without", can, "", ""},
		{"a model that cannot", cannot, tools, ""},
		{"a model that adapts", adapts, tools, ""},
	} {
		req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", fmt.Appendf(nil, body, r.tools))
		if err != nil {
			t.Fatal(err)
		}
		call, err := anthropic.Adapter{}.Encode(nil, req, r.to, endpoint)
		if err != nil || call.Header.Get("anthropic-beta") != r.want {
			t.Errorf("%s: %v %v", r.name, err, call.Header)
		}
	}
}
