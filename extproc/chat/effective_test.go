package chat_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

func request(t *testing.T, d chat.Dialect, body string, p *chat.Profile) *chat.Request {
	t.Helper()
	doc, err := jsonx.Scan([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return &chat.Request{Dialect: d, Doc: doc, Profile: p}
}

func TestTheEffectiveTemperature(t *testing.T) {
	warm := &chat.Profile{Default: chat.Params{Temperature: "0.3"}}
	for _, row := range []struct {
		d       chat.Dialect
		body    string
		profile *chat.Profile
		want    string
	}{
		{chat.OpenAI, `{}`, nil, ""},
		{chat.OpenAI, `{"temperature":0.20}`, nil, "0.20"},
		{chat.OpenAI, `{"temperature":null}`, warm, "0.3"},
		{chat.Anthropic, `{"temperature":1}`, warm, "1"},
		{chat.Anthropic, `{"temperature":1}`, &chat.Profile{Locked: chat.Params{Temperature: "0.1"}}, "0.1"},
		{chat.Gemini, `{"temperature":1,"generationConfig":{"topP":1}}`, warm, "0.3"},
		{chat.Gemini, `{"generation_config":{"temperature":0.7}}`, warm, "0.7"},
	} {
		if got := request(t, row.d, row.body, row.profile).Temperature(); got != row.want {
			t.Errorf("%s %s: %q, want %q", row.d, row.body, got, row.want)
		}
	}
}

func TestTheEffectiveEffort(t *testing.T) {
	for _, row := range []struct {
		d    chat.Dialect
		body string
		want bool
	}{
		{chat.OpenAI, `{"reasoning_effort":null,"temperature":1}`, false},
		{chat.OpenAI, `{"reasoning_effort":"none"}`, true},
		{chat.OpenAI, `{"reasoning":{}}`, true},
		{chat.OpenAI, `{"chat_template_kwargs":{"enable_thinking":false}}`, true},
		{chat.OpenAI, `{"chat_template_kwargs":{"x":1}}`, false},
		{chat.Anthropic, `{"thinking":{"type":"disabled"}}`, true},
		{chat.Anthropic, `{"output_config":{"format":{}}}`, false},
		{chat.Anthropic, `{"output_config":{"effort":"low"}}`, true},
		{chat.Gemini, `{"generationConfig":{"thinkingConfig":{}}}`, true},
		{chat.Gemini, `{"thinking":{}}`, false},
	} {
		if got := request(t, row.d, row.body, nil).HasThinking(); got != row.want {
			t.Errorf("%s %s: %v", row.d, row.body, got)
		}
	}
}

func TestReasoningTurnedOff(t *testing.T) {
	off := &chat.Profile{Default: chat.Params{Effort: "none"}}
	for _, row := range []struct {
		d       chat.Dialect
		body    string
		profile *chat.Profile
		want    bool
	}{
		{chat.OpenAI, `{}`, nil, false},
		{chat.OpenAI, `{}`, off, true},
		{chat.OpenAI, `{"reasoning_effort":"low"}`, off, false},
		{chat.OpenAI, `{"reasoning_effort":"low"}`, &chat.Profile{Locked: chat.Params{Effort: "none"}}, true},
		{chat.OpenAI, `{"reasoning_effort":"none"}`, &chat.Profile{Locked: chat.Params{Effort: "max"}}, false},
		{chat.OpenAI, `{"reasoning_effort":"none"}`, nil, true},
		{chat.OpenAI, `{"reasoning":{"effort":"none"}}`, nil, true},
		{chat.OpenAI, `{"reasoning":{"enabled":false}}`, nil, true},
		{chat.OpenAI, `{"enable_thinking":false}`, nil, true},
		{chat.OpenAI, `{"enable_thinking":true}`, nil, false},
		{chat.OpenAI, `{"chat_template_kwargs":{"enable_thinking":false}}`, nil, true},
		{chat.Responses, `{"reasoning":{"effort":"high"}}`, off, false},
		{chat.Anthropic, `{"thinking":{"type":"disabled"}}`, nil, true},
		{chat.Anthropic, `{"thinking":{"type":"adaptive"}}`, off, false},
		{chat.Gemini, `{"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`, nil, true},
		{chat.Gemini, `{"generation_config":{"thinking_config":{"thinking_budget":-1}}}`, nil, false},
		{chat.Gemini, `{"generation_config":{"thinkingConfig":{"thinking_budget":0}}}`, nil, true},
		{chat.Gemini, `{"generationConfig":{"thinking_config":{"thinkingBudget":"0"}}}`, nil, true},
	} {
		if got := request(t, row.d, row.body, row.profile).ThinkingOff(); got != row.want {
			t.Errorf("%s %s: %v", row.d, row.body, got)
		}
	}
}
