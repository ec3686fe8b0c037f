package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// agentTools are the names of an agent's tools: 30, of which risk_check needs some.
func agentTools() (names []string) {
	for i := range 15 {
		names = append(names, fmt.Sprintf("unrelated_%d", i))
	}
	for i := range 15 {
		names = append(names, fmt.Sprintf("get_position_health_%d", i))
	}
	return names
}

// toolsIn are the names of the tools in a body, whatever its format.
func toolsIn(t *testing.T, body string) (names []string) {
	t.Helper()
	var b struct {
		Tools []struct {
			Name     string
			Function struct{ Name string }
			Declared []struct{ Name string } `json:"functionDeclarations"`
		}
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		t.Fatal(err, body)
	}
	for _, tool := range b.Tools {
		if name := tool.Name + tool.Function.Name; name != "" {
			names = append(names, name)
		}
		for _, d := range tool.Declared {
			names = append(names, d.Name)
		}
	}
	return names
}

// TestC08AgentsToolsArePruned: in every format, at a provider of the same format and of another one. The client sees its own list where an answer repeats it.
func TestC08AgentsToolsArePruned(t *testing.T) {
	t.Parallel()
	own := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	other := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Key: "sk-a"})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  custom:
    - {id: own, endpoints: [%q], api_key: sk-o, models: [{id: m}]}
    - {id: other, format: anthropic, endpoints: [%q], api_key: sk-a, models: [{id: n}]}
`, own.URL, other.URL)})
	list := func(form string) string {
		var out []string
		for _, name := range agentTools() {
			out = append(out, fmt.Sprintf(form, name))
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	for name, form := range map[string]struct{ path, body string }{
		"openai":    {"/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":"tick"}],"tools":` + list(`{"type":"function","function":{"name":%q,"parameters":{"type":"object"}}}`) + `}`},
		"anthropic": {"/v1/messages", `{"model":%q,"max_tokens":100,"messages":[{"role":"user","content":"tick"}],"tools":` + list(`{"name":%q,"input_schema":{"type":"object"}}`) + `}`},
		"responses": {"/v1/responses", `{"model":%q,"input":"tick","tools":` + list(`{"type":"function","name":%q,"parameters":{"type":"object"}}`) + `}`},
	} {
		for model, at := range map[string]*fake.Server{"m": own, "n": other} {
			at.Forget()
			got := g.Do(t, gateway.Call{Path: form.path, Body: fmt.Sprintf(form.body, model), Header: []string{"X-Bardo-Tick-Type: risk_check"}})
			if got.Status != http.StatusOK || len(at.Generations()) != 1 {
				t.Fatalf("%s at %s: %d %s", name, model, got.Status, got.Body)
			}
			sent := toolsIn(t, string(at.Generations()[0].Body))
			if len(sent) != 12 || strings.Contains(fmt.Sprint(sent), "unrelated") {
				t.Errorf("%s at %s: the provider gets %v", name, model, sent)
			}
			if did := got.Header.Get("X-Bardo-Pipeline"); !strings.Contains(did, "l4;") || !strings.Contains(did, "saved=") {
				t.Errorf("%s at %s: the layers did %q", name, model, did)
			}
			if shown := toolsIn(t, got.Body); name == "responses" && len(shown) != 30 {
				t.Errorf("at %s the answer repeats %d of the client's tools: %v", model, len(shown), shown)
			}
		}
	}
}
