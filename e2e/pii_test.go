package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// maskedValues are what a user says here that must not leave the gateway.
var maskedValues = []string{
	"jane.doe@mail.example.co.uk", "+49 30 901820", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "536-90-4399", "203.0.113.7", "john@example.com", "Zx8Kq2mN5vB7cL1pR4tY6uW9", "EMP-004711",
	"12 N Main St, Springfield, IL 62704",
}

var placeholder = regexp.MustCompile(`<[A-Z][A-Z0-9_]*_[0-9A-Z]{8}>`)

// piiBodies have a value in every place where text can be; %[1]q is the model, %[2]v whether it streams.
var piiBodies = map[fake.Dialect]string{ //nolint:exhaustive // Gemini names its model in the path: see TestK66EveryFormatIsRestored
	fake.OpenAI: `{"model":%[1]q,"stream":%[2]v,"user":"john@example.com","messages":[
		{"role":"system","content":"The owner is jane.doe@mail.example.co.uk."},
		{"role":"user","content":[{"type":"text","text":"Call +49 30 901820 from 203.0.113.7"}]},
		{"role":"assistant","content":"I call EMP-004711 at 12 N Main St, Springfield, IL 62704.","tool_calls":[{"id":"c1","type":"function","function":{"name":"pay","arguments":"{\"card\":\"4111 1111 1111 1111\",\"iban\":\"DE89 3704 0044 0532 0130 00\"}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"paid for SSN 536-90-4399"},
		{"role":"user","content":"my key is sk-ant-Zx8Kq2mN5vB7cL1pR4tY6uW9, write again"}],
		"tools":[{"type":"function","function":{"name":"pay","description":"asks john@example.com","parameters":{"type":"object"}}}]}`,
	fake.Anthropic: `{"model":%[1]q,"stream":%[2]v,"max_tokens":500,"metadata":{"user_id":"john@example.com"},
		"system":[{"type":"text","text":"The owner is jane.doe@mail.example.co.uk."}],
		"messages":[
		{"role":"user","content":[{"type":"text","text":"Call +49 30 901820 from 203.0.113.7"},{"type":"document","title":"EMP-004711","source":{"type":"text","media_type":"text/plain","data":"owner: john@example.com"}}]},
		{"role":"assistant","content":[{"type":"text","text":"I call EMP-004711 at 12 N Main St, Springfield, IL 62704."},{"type":"tool_use","id":"c1","name":"pay","input":{"card":"4111 1111 1111 1111","iban":["DE89 3704 0044 0532 0130 00"]}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"paid for SSN 536-90-4399"},{"type":"text","text":"my key is sk-ant-Zx8Kq2mN5vB7cL1pR4tY6uW9, write again"}]}],
		"tools":[{"name":"pay","description":"asks john@example.com","input_schema":{"type":"object"}}]}`,
}

func piiAsk(a ask) gateway.Call {
	c := a.call()
	c.Body = fmt.Sprintf(piiBodies[a.dialect], a.model, a.stream)
	return c
}

// TestK66K68WhatIsMaskedIsRestored: no provider sees a value of any place in the request, and the client gets all of them back, in text and in tool arguments,
// however small the pieces are in which they come.
func TestK66K68WhatIsMaskedIsRestored(t *testing.T) {
	t.Parallel()
	openai := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	anthropic := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Key: "sk-a"})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
pipeline:
  pii: {policy: mask, patterns: {employee: {regexp: 'EMP-\d{6}', examples: [EMP-004711]}}}
providers:
  custom:
    - {id: own, endpoints: [%q], api_key: sk-o, models: [{id: m}]}
    - {id: other, format: anthropic, endpoints: [%q], api_key: sk-a, models: [{id: n}]}
`, openai.URL, anthropic.URL)})
	for _, a := range []ask{
		{dialect: fake.OpenAI, model: "m"},
		{dialect: fake.OpenAI, model: "m", stream: true},
		{dialect: fake.OpenAI, model: "n", stream: true},
		{dialect: fake.Anthropic, model: "n"},
		{dialect: fake.Anthropic, model: "n", stream: true},
		{dialect: fake.Anthropic, model: "m"},
	} {
		t.Run(fmt.Sprintf("%s at %s, stream %v", a.dialect, a.model, a.stream), func(t *testing.T) {
			at := map[string]*fake.Server{"m": openai, "n": anthropic}[a.model]
			at.Behave(fake.Behaviour{})
			at.Forget()
			if got := g.Do(t, piiAsk(a)); got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Bardo-Pipeline"), "l7;") || !strings.Contains(got.Header.Get("X-Bardo-Pipeline"), "masked;card=1;email=") {
				t.Fatalf("%d, %s: %s", got.Status, got.Header.Get("X-Bardo-Pipeline"), got.Body)
			}
			first := string(at.Generations()[0].Body)
			holders := placeholder.FindAllString(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(first), -1)
			slices.Sort(holders)
			if holders = slices.Compact(holders); len(holders) != len(maskedValues) {
				t.Fatalf("the provider sees %d placeholders: %s", len(holders), first)
			}
			args := `{"to":["` + strings.Join(holders, `","`) + `"]}`
			at.Behave(fake.Behaviour{Text: "Sent to " + strings.Join(holders, "; ") + " <END", Piece: 3, ToolCalls: []fake.ToolCall{{Name: "pay", Args: args, Pieces: len(args)}}})
			got := g.Do(t, piiAsk(a))
			said := turnOf(t, a, got)
			for _, v := range maskedValues {
				if !strings.Contains(said.text, v) || len(said.calls) != 1 || !strings.Contains(said.calls[0].args, v) {
					t.Errorf("%s does not come back: %+v", v, said)
				}
				for _, r := range at.Requests() {
					if strings.Contains(string(r.Body), v) {
						t.Errorf("the provider sees %s: %s", v, r.Body)
					}
				}
			}
			if !strings.HasSuffix(said.text, " <END") || placeholder.MatchString(got.Body) {
				t.Errorf("the answer is %s", got.Body)
			}
			if second := string(at.Generations()[1].Body); second != first {
				t.Errorf("the same request is masked as\n%s\nand then as\n%s", first, second)
			}
		})
	}
}

// TestK69WhatIsBlockedDoesNotReachAProvider: nor does a private key, whatever the policy is; what is only detected is sent as it is.
func TestK69WhatIsBlockedDoesNotReachAProvider(t *testing.T) {
	t.Parallel()
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	for policy, config := range map[string]string{"block": "pipeline: {pii: {policy: block}}", "mask": "pipeline: {pii: {policy: mask}}", "detect": ""} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
			g := gateway.Run(t, gateway.Options{Config: quick + config + fmt.Sprintf("\nproviders:\n  custom: [{id: own, endpoints: [%q], api_key: sk-o, models: [{id: m}]}]\n", p.URL)})
			for _, a := range []ask{{dialect: fake.OpenAI, model: "m"}, {dialect: fake.Anthropic, model: "m", stream: true}} {
				a.say = "my private key is " + key
				got := g.Do(t, a.call())
				if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"secret_in_prompt"`) || strings.Contains(got.Body, key) || len(p.Generations()) != 0 {
					t.Errorf("a private key: %d %s, after %d calls", got.Status, got.Body, len(p.Generations()))
				}
			}
			hinted := ask{dialect: fake.OpenAI, model: "m", more: `"bardo":{"profile":{"predicted_output":"my private key is ` + key + `"}}`}
			mustFail(t, hinted, g.Do(t, hinted.call()), http.StatusBadRequest, "secret_in_prompt")
			if len(p.Generations()) != 0 {
				t.Error("a private key in a hint reached the provider")
			}
			a := ask{dialect: fake.OpenAI, model: "m", say: "write to john@example.com"}
			got := g.Do(t, a.call())
			sent := p.Generations()
			switch policy {
			case "block":
				if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"secret_in_prompt"`) || !strings.Contains(got.Body, "email") || len(sent) != 0 {
					t.Errorf("%d %s, after %d calls", got.Status, got.Body, len(sent))
				}
			case "mask":
				if got.Status != http.StatusOK || strings.Contains(string(sent[0].Body), "john@") {
					t.Errorf("%d, the provider sees %s", got.Status, sent[0].Body)
				}
			default:
				if did := got.Header.Get("X-Bardo-Pipeline"); got.Status != http.StatusOK || !strings.Contains(string(sent[0].Body), "john@example.com") || !strings.Contains(did, "found;email=1") {
					t.Errorf("%d, layers %q, the provider sees %s", got.Status, did, sent[0].Body)
				}
				a.say = "write to jane@example.com"
				p.Forget()
				if got = g.Do(t, a.call("X-Bardo-Security-Class: confidential")); got.Status != http.StatusOK || strings.Contains(string(p.Generations()[0].Body), "jane@") {
					t.Errorf("confidential: %d, the provider sees %s", got.Status, p.Generations()[0].Body)
				}
			}
		})
	}
}

// TestK66EveryFormatIsRestored: the frames around restored text are those of one answer, and usage that comes with each piece does not release a part of a
// placeholder.
func TestK66EveryFormatIsRestored(t *testing.T) {
	t.Parallel()
	openai := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	gemini := fake.Start(t, fake.Config{Dialect: fake.Gemini, Key: "sk-g"})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
pipeline: {pii: {policy: mask}}
providers:
  custom:
    - {id: own, endpoints: [%q], api_key: sk-o, responses: true, models: [{id: m}]}
    - {id: other, format: gemini, endpoints: [%q], api_key: sk-g, models: [{id: q}]}
`, openai.URL, gemini.URL)})
	for _, row := range []struct {
		at         *fake.Server
		path, body string
	}{
		{openai, "/v1/responses", `{"model":"m","stream":true,"input":"write to a@b.com"}`},
		{openai, "/v1/responses", `{"model":"m","input":"write to a@b.com"}`},
		{openai, "/v1/responses", `{"model":"q","stream":true,"input":"write to a@b.com"}`},
		{gemini, geminiPath("q", true), `{"contents":[{"role":"user","parts":[{"text":"write to a@b.com"}]}]}`},
		{gemini, geminiPath("q", false), `{"contents":[{"role":"user","parts":[{"text":"write to a@b.com"}]}]}`},
		{openai, geminiPath("m", true), `{"contents":[{"role":"user","parts":[{"text":"write to a@b.com"}]}]}`},
	} {
		at := row.at
		if strings.Contains(row.body, `"q"`) {
			at = gemini
		}
		at.Behave(fake.Behaviour{})
		at.Forget()
		g.Do(t, gateway.Call{Path: row.path, Body: row.body})
		sent := at.Generations()
		h := placeholder.FindString(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(sent[len(sent)-1].Body)))
		at.Behave(fake.Behaviour{Text: "Sent to " + h + " now", Piece: 3, ToolCalls: []fake.ToolCall{{Name: "pay", Args: `{"a":"` + h + `"}`, Pieces: 9}}})
		got := g.Do(t, gateway.Call{Path: row.path, Body: row.body})
		if got.Status != http.StatusOK || strings.Count(got.Body, "a@b.com") < 2 || strings.Contains(got.Body, "EMAIL") {
			t.Errorf("%s of %s: %d %s", row.path, row.body, got.Status, got.Body)
		}
		for _, frame := range []string{"event: response.in_progress", "event: response.content_part.added", "event: response.content_part.done"} {
			if strings.Count(got.Body, frame) > 1 {
				t.Errorf("%s of %s: more than one %s: %s", row.path, row.body, frame, got.Body)
			}
		}
		for _, r := range at.Requests() {
			if strings.Contains(string(r.Body), "a@b.com") {
				t.Errorf("%s of %s: the provider sees %s", row.path, row.body, r.Body)
			}
		}
	}
}
