package custom_test

import (
	"errors"
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
		key      provider.Secret
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
			at := provider.Endpoint{BasePath: "/v1", Key: r.key, Dialect: r.format}
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
