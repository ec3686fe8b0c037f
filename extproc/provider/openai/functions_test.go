package openai_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/wire/anthropic"
	wire "bardo.money/gateway/extproc/wire/openai"
)

// TestFunctionsInThePlaceOfThinking: newer models refuse functions in Chat Completions unless the effort is none, whether or not an effort
// is set. An effort that the client did not set in this format is dropped and named; one that it set itself gets the provider's refusal.
func TestFunctionsInThePlaceOfThinking(t *testing.T) {
	const (
		message  = "Function tools with reasoning_effort are not supported for gpt-5.6-sol in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
		function = `{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`
	)
	refusal := &chat.ProviderError{Status: 400, Param: "reasoning_effort", Message: message}
	high := &chat.Profile{Default: chat.Params{Effort: "high"}}
	for _, row := range []struct {
		about, body string
		claude      bool // the client speaks Anthropic's format
		profile     *chat.Profile
		ok          bool
		degraded    string
	}{
		{about: "nobody says anything", body: `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[` + function + `]}`, ok: true},
		{about: "the profile does", body: `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[` + function + `]}`, profile: high, ok: true, degraded: "reasoning_effort:high->prompt"},
		{about: "a client of another format does", claude: true, body: `{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":2000}}`, ok: true, degraded: "thinking"},
		{about: "the client does", body: `{"model":"m","messages":[{"role":"user","content":"hi"}],"reasoning_effort":"high","tools":[` + function + `]}`},
	} {
		t.Run(row.about, func(t *testing.T) {
			decode := wire.Dialect{}.Decode
			if row.claude {
				decode = anthropic.Dialect{}.Decode
			}
			req, err := decode(chat.Generate, nil, "", []byte(row.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Profile = row.profile
			to, ok := openai.Adapter{}.Amend(req, known("gpt-5.6-sol"), provider.Endpoint{}, refusal)
			if ok != row.ok {
				t.Fatalf("it is asked again: %v", ok)
			}
			if !ok {
				return
			}
			call, err := openai.Adapter{}.Encode(nil, req, to, provider.Endpoint{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(call.Body), `"reasoning_effort":"none"`) != 1 || strings.Count(string(call.Body), `"reasoning_effort"`) != 1 || strings.Join(call.Degraded, ",") != row.degraded {
				t.Errorf("%s %q", call.Body, call.Degraded)
			}
			if _, ok := (openai.Adapter{}).Amend(req, to, provider.Endpoint{}, refusal); ok {
				t.Error("it is asked a third time")
			}
		})
	}
}
