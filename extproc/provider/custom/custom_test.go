package custom_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

func TestACallInTheConfiguredFormat(t *testing.T) {
	const fromOpenAI = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	const fromAnthropic = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	rows := []struct {
		name     string
		client   wire.Dialect
		op       chat.Op
		body     string
		format   chat.Dialect
		key      string
		path     string
		header   string
		contains string
	}{
		{"openai", openai.Dialect{}, chat.Generate, fromOpenAI, chat.OpenAI, "k", "/v1/chat/completions", "authorization Bearer k", `"max_tokens":5`},
		{"openai by default, without a key", openai.Dialect{}, chat.Generate, fromOpenAI, "", "", "/v1/chat/completions", "", `"model":"up"`},
		{"anthropic client to openai (K-94)", anthropic.Dialect{}, chat.Generate, fromAnthropic, chat.OpenAI, "k", "/v1/chat/completions", "authorization Bearer k", `"max_tokens":5`},
		{"anthropic", anthropic.Dialect{}, chat.Generate, fromAnthropic, chat.Anthropic, "k", "/v1/messages?beta=true", "anthropic-version 2023-06-01,x-api-key k,anthropic-beta a,b", `"max_tokens":5`},
		{"anthropic without a key", anthropic.Dialect{}, chat.Generate, fromAnthropic, chat.Anthropic, "", "/v1/messages?beta=true", "anthropic-version 2023-06-01,anthropic-beta a,b", `"max_tokens":5`},
		{"openai client to anthropic", openai.Dialect{}, chat.Generate, fromOpenAI, chat.Anthropic, "k", "/v1/messages", "anthropic-version 2023-06-01,x-api-key k", `"max_tokens":5`},
		{"counting (K-85)", anthropic.Dialect{}, chat.CountTokens, fromAnthropic, chat.Anthropic, "k", "/v1/messages/count_tokens?beta=true", "anthropic-version 2023-06-01,x-api-key k,anthropic-beta a,b", `"model":"up"`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			req, err := r.client.Decode(r.op, header.List{{Name: "anthropic-beta", Value: "a, b"}}, "beta=true", []byte(r.body))
			if err != nil {
				t.Fatal(err)
			}
			at := provider.Endpoint{BasePath: "/v1", Key: secret.New(r.key), Dialect: r.format}
			call, err := custom.Adapter{}.Encode(nil, req, policy.Resolution{Model: "m", Upstream: "up"}, at)
			if err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, f := range call.Header {
				fields = append(fields, f.Name+" "+f.Value)
			}
			if call.Path != r.path || strings.Join(fields, ",") != r.header || !strings.Contains(string(call.Body), r.contains) {
				t.Errorf("%s %v %s", call.Path, fields, call.Body)
			}
		})
	}
}

func TestK85AServerSeesTheFlagsThatItKnows(t *testing.T) {
	const body = `{"model":"m","max_tokens":5,"context_management":{"edits":[]},"messages":[{"role":"user","content":"hi"}]}`
	sent := header.List{{Name: "anthropic-beta", Value: "context-1m-2025-08-07,context-management-2025-06-27"}}
	for _, r := range []struct {
		name               string
		supported, refused []string
		flags, degraded    string
		edits              bool
	}{
		{"all, where nothing is said", nil, nil, "context-1m-2025-08-07,context-management-2025-06-27", "", true},
		{"those that are listed", []string{"context-1m-2025-08-07", "x"}, nil, "context-1m-2025-08-07", "context_management,beta:context-management-2025-06-27", false},
		{"none", []string{}, nil, "", "context_management,beta:context-1m-2025-08-07,beta:context-management-2025-06-27", false},
		{"all but what it refused", nil, []string{"context-1m-2025-08-07"}, "context-management-2025-06-27", "beta:context-1m-2025-08-07", true},
	} {
		req, err := anthropic.Dialect{}.Decode(chat.Generate, sent, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		to := policy.Resolution{Model: "m", Without: policy.Without{Betas: r.refused}}
		call, err := custom.Adapter{}.Encode(nil, req, to, provider.Endpoint{Dialect: chat.Anthropic, Betas: r.supported})
		if err != nil {
			t.Fatal(err)
		}
		if got := call.Header.Get("anthropic-beta"); got != r.flags || strings.Join(call.Degraded, ",") != r.degraded || strings.Contains(string(call.Body), "context_management") != r.edits {
			t.Errorf("%s: flags %q, degraded %q, %s", r.name, got, call.Degraded, call.Body)
		}
	}
}

func TestK16ThinkingByProvider(t *testing.T) {
	const turn = `{"role":"user","content":"hi"},{"role":"assistant","content":[%s{"type":"text","text":"a"}]},{"role":"user","content":"so?"}`
	const signed, bare = `{"type":"thinking","thinking":"Hm.","signature":"c2ln"},`, `{"type":"thinking","thinking":"Hm.","signature":""},`
	for _, r := range []struct {
		name     string
		to       policy.Resolution
		in, want string
	}{
		{"nobody knows the model", policy.Resolution{}, signed + bare, signed + bare},
		{"a family that does not sign", policy.Resolution{NoSignatures: true}, signed + bare, bare + bare},
		{"it refused the history's", policy.Resolution{Without: policy.Without{Thinking: true}}, signed + bare, ""},
	} {
		body := func(blocks string) string {
			return `{"model":"m","max_tokens":5,"messages":[` + fmt.Sprintf(turn, blocks) + `]}`
		}
		req, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body(r.in)))
		if err != nil {
			t.Fatal(err)
		}
		r.to.Model = "m"
		call, err := custom.Adapter{}.Encode(nil, req, r.to, provider.Endpoint{Dialect: chat.Anthropic})
		if err != nil || string(call.Body) != body(r.want) || slices.Contains(call.Degraded, "thinking") != (r.in != r.want) {
			t.Errorf("%s: %v %v\n%s", r.name, err, call.Degraded, call.Body)
		}
	}
}

func TestOnlyServersOfAnthropicsFormatAreAskedAgain(t *testing.T) {
	refusal := &chat.ProviderError{Status: 400, Message: "messages.1.content.0: Invalid `signature` in `thinking` block"}
	for _, format := range []chat.Dialect{chat.Anthropic, chat.OpenAI} {
		_, ok := custom.Adapter{}.Amend(&chat.Request{Dialect: chat.Anthropic}, policy.Resolution{}, provider.Endpoint{Dialect: format}, refusal)
		if ok != (format == chat.Anthropic) {
			t.Errorf("%s: %v", format, ok)
		}
	}
}

func TestD24AModelThatReasonsElsewhere(t *testing.T) {
	const body = `{"model":"m","max_tokens":5,"temperature":0.5,"messages":[{"role":"user","content":"hi"}]}`
	const want = `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":5}`
	for _, client := range []wire.Dialect{openai.Dialect{}, anthropic.Dialect{}} {
		req, err := client.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		call, err := custom.Adapter{}.Encode(nil, req, policy.Resolution{Model: "m", FixedSampling: true}, provider.Endpoint{})
		if err != nil || string(call.Body) != want || strings.Join(call.Degraded, ",") != "temperature" {
			t.Errorf("%s: %v %v %s", client.Name(), err, call.Degraded, call.Body)
		}
	}
}

func TestCacheControlGoesToServersThatUnderstandIt(t *testing.T) {
	const body = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}`
	for _, understands := range []bool{true, false} {
		req, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		call, err := custom.Adapter{}.Encode(nil, req, policy.Resolution{Model: "m"}, provider.Endpoint{CacheControl: understands})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(call.Body), `"cache_control":{"type":"ephemeral"}`); got != understands || slices.Contains(call.Degraded, "cache_control") == understands {
			t.Errorf("understands %v: %s %v", understands, call.Body, call.Degraded)
		}
	}
}

func TestTokensCanBeCountedOnlyByAnthropic(t *testing.T) {
	_, err := custom.Adapter{}.Encode(nil, &chat.Request{Op: chat.CountTokens, Dialect: chat.Anthropic}, policy.Resolution{}, provider.Endpoint{Dialect: chat.OpenAI})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Errorf("got %v", err)
	}
}
