package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// hostileValues take the place of values of requests: of another type, empty, out of range, too long, too deep, or made to look like the gateway's own.
var hostileValues = []string{
	`null`, `true`, `-1`, `0`, `1e400`, `9007199254740993`, `1.5`, `""`, `"\u0000"`, `"\ud800"`, `"<EMAIL_3F2A9C7K>"`, `"data:image/png;base64,AAAA"`, `[]`, `{}`, `[null]`,
	`[[[["x"]]]]`, `{"type":"text"}`, `{"":{"":""}}`, `"` + strings.Repeat("a ", 20_000) + `"`, strings.Repeat("[", 300) + strings.Repeat("]", 300),
}

// hostileTemplates have the members that layers read. Each value of them is replaced by each hostile one.
var hostileTemplates = []struct{ path, body string }{
	{"/v1/chat/completions", `{"model":"m","stream":false,"user":"u","metadata":{"k":"v"},"temperature":0,"max_tokens":50,"n":1,"stop":["x"],"response_format":{"type":"text"},
		"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Write to jane@example.com"}]},
		{"role":"assistant","content":"ok","tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"a\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"a result"},{"role":"user","content":"go on"}],
		"tools":[{"type":"function","function":{"name":"get","description":"d","parameters":{"type":"object"}}}],"tool_choice":"auto","bardo":{"subsystem":"risk","golem_id":"g1","tick_type":"risk_check"}}`},
	{"/v1/messages", `{"model":"m","max_tokens":50,"metadata":{"user_id":"u"},"system":[{"type":"text","text":"ETH is at 3012.","bardo":"volatile"},{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
		"messages":[{"role":"user","content":[{"type":"text","text":"Write to jane@example.com"},{"type":"document","title":"d","source":{"type":"text","media_type":"text/plain","data":"words"}}]},
		{"role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"c1","name":"get","input":{"a":1}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a result"}]}]}],
		"tools":[{"name":"get","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"}}`},
	{"/v1/responses", `{"model":"m","store":false,"instructions":"Be brief.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Write to jane@example.com"}]},
		{"type":"function_call","call_id":"c1","name":"get","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"a result"}],
		"tools":[{"type":"function","name":"get","parameters":{"type":"object"}}],"tool_choice":"auto","max_output_tokens":50}`},
	{"/v1beta/models/m:generateContent", `{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"Write to jane@example.com"}]},
		{"role":"model","parts":[{"functionCall":{"name":"get","args":{"a":1}}}]},{"role":"user","parts":[{"functionResponse":{"name":"get","response":{"r":"a result"}}}]}],
		"tools":[{"functionDeclarations":[{"name":"get","parameters":{"type":"object"}}]}],"generationConfig":{"temperature":0,"maxOutputTokens":50}}`},
	{"/v1/completions", `{"model":"m","prompt":["Write to jane@example.com"],"suffix":"s","max_tokens":5,"stop":["x"],"n":1,"best_of":1,"echo":false}`},
	{"/v1/embeddings", `{"model":"text-embedding-3-small","input":["Write to jane@example.com"],"user":"u","encoding_format":"float","dimensions":2}`},
	{"/v1/moderations", `{"model":"omni-moderation-latest","input":[{"type":"text","text":"Write to jane@example.com"}]}`},
	{"/v1/rerank", `{"model":"Salesforce/Llama-Rank-V1","query":"q","documents":["a",{"text":"jane@example.com"}],"top_n":1}`},
}

// hostile is a request of which one value was replaced.
type hostile struct {
	path string
	at   []string // the names of the members that lead to the value
	with string
	body string
}

func (h hostile) String() string { return fmt.Sprintf("%s, %v = %.40s", h.path, h.at, h.with) }

// hostiles are all requests of a template.
func hostiles(t *testing.T, path, body string) (out []hostile) {
	t.Helper()
	var doc any
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(path, err)
	}
	add := func(at []string) {
		for _, v := range hostileValues {
			b, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, hostile{path, slices.Clone(at), v, strings.Replace(string(b), `"PLACE"`, v, 1)})
		}
	}
	var visit func(v any, at []string)
	visit = func(v any, at []string) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				was := v[key]
				v[key] = "PLACE"
				add(append(at, key))
				v[key] = was
				visit(was, append(at, key))
			}
		case []any:
			for i := range v {
				was := v[i]
				v[i] = "PLACE"
				add(at)
				v[i] = was
				visit(was, at)
			}
		}
	}
	visit(doc, nil)
	return out
}

// named reports whether an error says which value is wrong: by a name on the way to it.
func (h hostile) named(message string) bool {
	message = strings.ReplaceAll(strings.ToLower(message), "_", "")
	return len(h.at) == 0 || slices.ContainsFunc(h.at, func(name string) bool {
		return strings.Contains(message, strings.ReplaceAll(strings.ToLower(name), "_", ""))
	})
}

// TestHostileValuesAreServedOrRefusedByName: with every layer that reads texts, in both shapes of the data path, no value of a request makes the gateway fail, and what it
// refuses itself it names. A seventh of all values is tried, another one in each shape.
func TestHostileValuesAreServedOrRefusedByName(t *testing.T) {
	t.Parallel()
	for shape, path := range []string{"extproc", "module"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			g := gateway.Run(t, gateway.Options{DataPath: path, Config: quick + fmt.Sprintf(`
pipeline:
  hash: all
  pii: {policy: mask}
  injection: {policy: quarantine, on_error: allow}
  tools: {mode: "on"}
  firewall: {rules: [{id: calls, tools: [get], condition: "size(args) < 9"}]}
models: {injection: "off", embedding: "off"}
providers:
  openai: {api_key: %s, base_url: %q}
  together: {api_key: %s, base_url: %q}
  custom: [{id: own, endpoints: [%q], api_key: %s, models: [{id: m}]}]
`, p.Key, p.URL, p.Key, p.URL, p.URL, p.Key)})
			tried, refused := 0, 0
			for _, template := range hostileTemplates {
				for i, h := range hostiles(t, template.path, template.body) {
					if i%7 != shape {
						continue
					}
					p.Forget()
					got := g.Do(t, gateway.Call{Path: h.path, Body: h.body})
					tried++
					if got.Status >= 500 || got.Status < 200 {
						t.Errorf("%s: %d %.300s", h, got.Status, got.Body)
					}
					if got.Status < 400 || len(p.Calls()) > 0 {
						continue
					}
					if refused++; !h.named(got.Body) {
						t.Errorf("%s is refused by %.300s", h, got.Body)
					}
				}
			}
			if tried < 500 || refused < 50 {
				t.Errorf("%d values were tried, %d refused", tried, refused)
			}
			if strings.Contains(g.Log(), "panic") {
				t.Error("a request ended by a panic")
			}
			g.AssertSound(t)
		})
	}
}
