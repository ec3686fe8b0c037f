package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// echoed is a request as clients of gateways send it: with marks for prompt caches, and with the members of earlier answers, null ones included.
const echoed = `{"model":%q,"stream":%v,"messages":[` +
	`{"role":"system","content":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"cache_control":{"type":"ephemeral"}},` +
	`{"role":"user","content":"Draw."},` +
	`{"role":"assistant","content":"Here.","refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":null,"reasoning_content":"Hm.",` +
	`"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="},"index":0}],"provider_specific_fields":{"citations":null}},` +
	`{"role":"user","content":"Smaller."},` +
	`{"provider_specific_fields":{"refusal":null},"role":"assistant","content":null,"function_call":null,"thinking_blocks":[{"type":"thinking","thinking":"Hm.","signature":"c2ln"}],` +
	`"tool_calls":[{"id":"c1","type":"function","index":0,"provider_specific_fields":{"thought_signature":"c2ln"},` +
	`"function":{"name":"draw","arguments":"{}","provider_specific_fields":{"thought_signature":"c2ln"}}}]},` +
	`{"role":"tool","tool_call_id":"c1","content":"drawn","cache_control":{"type":"ephemeral"}},` +
	`{"role":"assistant","content":null,"refusal":"I will not.","annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":1,"title":"t","url":"https://a.example/"}}]},` +
	`{"role":"user","content":"Why?"}],` +
	`"tools":[{"type":"function","function":{"name":"draw","parameters":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}},"cache_control":{"type":"ephemeral"}}]}`

// TestWhatClientsSendBackIsAcceptedEverywhere: providers that refuse unknown members get a request without those that other providers' answers and
// gateways have.
func TestWhatClientsSendBackIsAcceptedEverywhere(t *testing.T) {
	t.Parallel()
	var config strings.Builder
	config.WriteString(quick + "providers:\n")
	servers := map[string]*fake.Server{}
	for name, at := range map[string]struct {
		fake    fake.Config
		section string
	}{
		"groq":       {fake.Config{Vendor: fake.Groq}, "base_url: %q, api_key: %q, models: [{id: of-groq, upstream_id: org/m}]"},
		"mistral":    {fake.Config{Vendor: fake.Mistral}, "base_url: %q, api_key: %q, models: [{id: of-mistral, upstream_id: org/m}]"},
		"cerebras":   {fake.Config{Vendor: fake.Cerebras}, "base_url: %q, api_key: %q, models: [{id: of-cerebras, upstream_id: org/m}]"},
		"azure":      {fake.Config{Vendor: fake.Azure}, "base_url: %q, api_key: %q, models: [{id: of-azure, upstream_id: m}]"},
		"bedrock":    {fake.Config{Vendor: fake.Bedrock}, "base_url: %q, api_key: %q, region: eu-west-1, models: [{id: of-bedrock, upstream_id: org/m}]"},
		"openrouter": {fake.Config{Vendor: fake.OpenRouter}, "endpoint: %q, api_key: %q, models: [{id: of-openrouter, upstream_id: org/m}]"},
		"venice":     {fake.Config{Vendor: fake.Venice}, "base_url: %q, api_key: %q, models: [{id: of-venice, upstream_id: m}]"},
		"bankr":      {fake.Config{Vendor: fake.Bankr}, "endpoint: %q, api_key: %q, revenue_balance_usd: 100, models: [{id: of-bankr, upstream_id: m}]"},
		"deepseek":   {fake.Config{Vendor: fake.DeepSeek}, "base_url: %q, api_key: %q"},
		"qwen":       {fake.Config{Vendor: fake.Qwen}, "base_url: %q, api_key: %q"},
		"openai":     {fake.Config{Dialect: fake.OpenAI}, "base_url: %q, api_key: %q"},
		"anthropic":  {fake.Config{Dialect: fake.Anthropic}, "base_url: %q, api_key: %q"},
		"google":     {fake.Config{Dialect: fake.Gemini}, "base_url: %q, api_key: %q"},
	} {
		s := fake.Start(t, at.fake)
		servers[name] = s
		fmt.Fprintf(&config, "  %s: {"+at.section+"}\n", name, s.URL, s.Key)
	}
	g := gateway.Run(t, gateway.Options{Config: config.String()})
	keepsMarks := []string{"qwen", "openrouter", "venice", "anthropic"}
	for name, s := range servers {
		model := map[string]string{"openai": "gpt-4o", "deepseek": "deepseek-v4-flash", "qwen": "qwen-plus", "anthropic": "claude-opus-4-8", "google": "gemini-3-flash"}[name]
		if model == "" {
			model = "of-" + name
		}
		for _, stream := range []bool{false, true} {
			got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(echoed, model, stream)})
			if got.Status != http.StatusOK {
				t.Errorf("%s, stream=%v: %d %s", name, stream, got.Status, got.Body)
				continue
			}
			asked := lastOf(t, s)
			if got.Status != http.StatusOK || asked.Status != http.StatusOK {
				t.Errorf("%s, stream=%v: %d %s; it was asked %s", name, stream, got.Status, got.Body, asked.Body)
				continue
			}
			body := string(asked.Body)
			if kept := strings.Contains(body, "cache_control"); kept != slices.Contains(keepsMarks, name) || kept == slices.Contains(lost(got), "cache_control") {
				t.Errorf("%s: marks sent: %v; named: %v", name, kept, lost(got))
			}
			if kept := strings.Contains(body, "iVBORw0KGgo="); kept == slices.Contains(lost(got), "images") {
				t.Errorf("%s: images sent: %v; named: %v", name, kept, lost(got))
			}
			if !strings.Contains(body, "I will not.") {
				t.Errorf("%s: the refusal is lost: %s", name, body)
			}
		}
	}
	g.AssertSound(t)
}
