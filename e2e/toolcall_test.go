package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// spokenTurn is what a turn of the model's comes to, whatever the dialect and the form.
type spokenTurn struct {
	text   string
	calls  []toolUse
	reason string
}

type toolUse struct{ id, name, args string }

// names are the calls without their ids.
func (s *spokenTurn) names() string {
	var out []string
	for _, c := range s.calls {
		out = append(out, c.name+c.args)
	}
	return strings.Join(out, " ")
}

// turnOf reads an answer as the client of its dialect would. Every call must have an id of its own, and arguments that are an object.
func turnOf(t *testing.T, a ask, got gateway.Answer) spokenTurn {
	t.Helper()
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("status %d, %v: %s", got.Status, got.Err, got.Body)
	}
	s := spokenTurn{text: text(t, a, got)}
	switch {
	case a.stream && a.dialect == fake.OpenAI:
		openAICalls(t, got, &s)
	case a.stream:
		anthropicCalls(t, got, &s)
	case a.dialect == fake.OpenAI:
		var m struct {
			Choices []struct {
				FinishReason string `json:"finish_reason"`
				Message      struct {
					ToolCalls []struct {
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		got.JSON(t, &m)
		for _, c := range m.Choices[0].Message.ToolCalls {
			s.calls = append(s.calls, toolUse{c.ID, c.Function.Name, c.Function.Arguments})
		}
		s.reason = m.Choices[0].FinishReason
	default:
		var m struct {
			StopReason string `json:"stop_reason"`
			Content    []struct {
				Type, ID, Name string
				Input          json.RawMessage
			}
		}
		got.JSON(t, &m)
		for _, c := range m.Content {
			if c.Type == "tool_use" {
				s.calls = append(s.calls, toolUse{c.ID, c.Name, string(c.Input)})
			}
		}
		s.reason = m.StopReason
	}
	ids := map[string]bool{}
	for _, c := range s.calls {
		var args map[string]any
		if err := json.Unmarshal([]byte(c.args), &args); err != nil || c.id == "" || ids[c.id] {
			t.Errorf("the call %+v: %v", c, err)
		}
		ids[c.id] = true
	}
	return s
}

func openAICalls(t *testing.T, got gateway.Answer, s *spokenTurn) {
	t.Helper()
	for _, ev := range got.Events(t) {
		var c struct {
			Choices []struct {
				FinishReason string `json:"finish_reason"`
				Delta        struct {
					ToolCalls []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		if ev.Data == "" || json.Unmarshal([]byte(ev.Data), &c) != nil || len(c.Choices) == 0 {
			continue
		}
		for _, d := range c.Choices[0].Delta.ToolCalls {
			if d.Index == len(s.calls) {
				s.calls = append(s.calls, toolUse{id: d.ID, name: d.Function.Name})
			}
			s.calls[d.Index].args += d.Function.Arguments
		}
		s.reason += c.Choices[0].FinishReason
	}
}

func anthropicCalls(t *testing.T, got gateway.Answer, s *spokenTurn) {
	t.Helper()
	isCall := false
	for _, ev := range got.Events(t) {
		var e struct {
			Type         string
			ContentBlock struct{ Type, ID, Name string } `json:"content_block"`
			Delta        struct {
				PartialJSON string `json:"partial_json"`
				StopReason  string `json:"stop_reason"`
			}
		}
		if ev.Data == "" || json.Unmarshal([]byte(ev.Data), &e) != nil {
			continue
		}
		switch e.Type {
		case "content_block_start":
			if isCall = e.ContentBlock.Type == "tool_use"; isCall {
				s.calls = append(s.calls, toolUse{id: e.ContentBlock.ID, name: e.ContentBlock.Name})
			}
		case "content_block_delta":
			if isCall {
				s.calls[len(s.calls)-1].args += e.Delta.PartialJSON
			}
		case "content_block_stop":
			if n := len(s.calls); isCall && s.calls[n-1].args == "" {
				s.calls[n-1].args = "{}" // what content_block_start says
			}
		}
		s.reason += e.Delta.StopReason
	}
}

// withTools offers two tools in a client's dialect.
func withTools(d fake.Dialect) string {
	if d == fake.Anthropic {
		return `"tools":[{"name":"weather","input_schema":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}},{"name":"now","input_schema":{"type":"object"}}]`
	}
	return `"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}},` +
		`{"type":"function","function":{"name":"now"}}]`
}

// startTextCallers starts a gateway with two providers, one of each dialect, whose models call tools in text; a model's name says how, and at which.
func startTextCallers(t *testing.T) (g *gateway.Gateway, at map[fake.Dialect]*fake.Server) {
	t.Helper()
	at = make(map[fake.Dialect]*fake.Server, len(bothDialects))
	o := gateway.Options{Config: quick}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		at[d] = fake.Start(t, fake.Config{Dialect: d, Name: "talks-" + string(d)})
		p := gateway.Provider{ID: "talks-" + string(d), Fake: at[d], Format: string(d)}
		for _, format := range []string{"native", "hermes", "qwen", "json"} {
			p.Models = append(p.Models, gateway.Model{ID: format + "-at-" + string(d), Price: "{input: 1, output: 2}", More: "tool_format: " + format})
		}
		o.Providers = append(o.Providers, p)
	}
	return gateway.Run(t, o), at
}

var bothDialects = []fake.Dialect{fake.OpenAI, fake.Anthropic}

// toolReason is what a dialect says of a turn that called a tool, and of one that did not.
func toolReason(d fake.Dialect, called bool) string {
	switch {
	case d == fake.OpenAI && called:
		return "tool_calls"
	case d == fake.OpenAI:
		return "stop"
	case called:
		return "tool_use"
	}
	return "end_turn"
}

func TestK77CallsInText(t *testing.T) {
	t.Parallel()
	g, at := startTextCallers(t)
	const oslo = `{"name": "weather", "arguments": {"city": "Oslo"}}`
	for _, row := range []struct {
		about, format, says string
		text, calls         string
	}{
		{"a call", "hermes", "<tool_call>\n" + oslo + "\n</tool_call>", "", `weather{"city": "Oslo"}`},
		{"words around a call", "hermes", "Let me look. <tool_call>" + oslo + "</tool_call> So.", "Let me look.  So.", `weather{"city": "Oslo"}`},
		{"K-77 several", "qwen", "<tool_call>\n" + oslo + "\n</tool_call>\n<tool_call>\n" + `{"name": "now", "arguments": {}}` + "\n</tool_call>", "", `weather{"city": "Oslo"} now{}`},
		{"K-77 unclosed", "hermes", "<tool_call> " + oslo, "", `weather{"city": "Oslo"}`},
		{"K-77 cut off", "hermes", `Well, <tool_call> {"name": "weather", "argum`, `Well, <tool_call> {"name": "weather", "argum`, ""},
		{"K-77 braces and tags in strings", "hermes", `<tool_call>{"name": "weather", "arguments": {"city": "} </tool_call> {"}}</tool_call>`, "", `weather{"city": "} </tool_call> {"}`},
		{"K-77 K-04 empty arguments", "hermes", `<tool_call>{"name": "now", "arguments": ""}</tool_call>`, "", "now{}"},
		{"Qwen's own tags", "qwen", "ok <tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>", "ok ", `weather{"city":"Oslo","days":3}`},
		{"a whole answer in JSON", "json", "[" + oslo + "]", "", `weather{"city": "Oslo"}`},
		{"a block of JSON", "json", "Look:\n```json\n" + oslo + "\n```", "Look:\n", `weather{"city": "Oslo"}`},
		{"JSON that is no call", "json", `{"city": "Oslo", "sky": "blue"}`, `{"city": "Oslo", "sky": "blue"}`, ""},
		{"a tool that was not offered", "hermes", `<tool_call>{"name": "rm", "arguments": {}}</tool_call>`, `<tool_call>{"name": "rm", "arguments": {}}</tool_call>`, ""},
		{"a model that calls natively and says a tag", "native", "<tool_call>" + oslo + "</tool_call>", "<tool_call>" + oslo + "</tool_call>", ""},
	} {
		for _, provider := range bothDialects {
			model := row.format + "-at-" + string(provider)
			at[provider].BehaveFor(model, fake.Behaviour{Text: row.says, Shape: fake.Shape{Cut: 7}})
			for _, client := range bothDialects {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s to %s, stream=%v", row.about, client, provider, stream), func(t *testing.T) {
						a := ask{dialect: client, model: model, stream: stream, more: withTools(client)}
						s := turnOf(t, a, g.Do(t, a.call()))
						if s.text != row.text || s.names() != row.calls {
							t.Errorf("it says %q and calls %q, want %q and %q", s.text, s.names(), row.text, row.calls)
						}
						if want := toolReason(client, row.calls != ""); s.reason != want { // K-09
							t.Errorf("it stops for %q, want %q", s.reason, want)
						}
						if native := strings.Contains(string(lastOf(t, at[provider]).Body), `"tools":`); native != (row.format == "native") {
							t.Errorf("tools were offered natively: %v", native)
						}
					})
				}
			}
		}
	}
}

func TestToolsInTextOverSeveralTurns(t *testing.T) {
	t.Parallel()
	g, at := startTextCallers(t)
	for _, provider := range bothDialects {
		for _, client := range bothDialects {
			for _, stream := range []bool{false, true} {
				for _, format := range []string{"hermes", "qwen", "json"} {
					t.Run(fmt.Sprintf("%s, %s to %s, stream=%v", format, client, provider, stream), func(t *testing.T) {
						says := `<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>`
						if format == "json" {
							says = `[{"name": "weather", "arguments": {"city": "Oslo"}}]`
						}
						p := at[provider]
						p.Queue(fake.Behaviour{Text: says}, fake.Behaviour{Text: "It is blue."})
						a := ask{dialect: client, model: format + "-at-" + string(provider), stream: stream, more: withTools(client)}
						s := turnOf(t, a, g.Do(t, a.call()))
						if len(s.calls) != 1 {
							t.Fatalf("it calls %q", s.names())
						}
						c := a.call()
						c.Body = secondTurn(a, s.calls[0])
						if s := turnOf(t, a, g.Do(t, c)); s.text != "It is blue." || len(s.calls) != 0 || s.reason != toolReason(client, false) {
							t.Errorf("the second turn is %+v", s)
						}
						checkWords(t, lastOf(t, p), format, client == provider)
					})
				}
			}
		}
	}
}

// secondTurn is the conversation with the call and its result. It has a member whose spaces only a copy keeps.
func secondTurn(a ask, c toolUse) string {
	history := fmt.Sprintf(`{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]},`+
		`{"role":"tool","tool_call_id":%q,"content":"blue sky"}`, c.id, c.name, c.args, c.id)
	if a.dialect == fake.Anthropic {
		history = fmt.Sprintf(`{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]},`+
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"blue sky"}]}`, c.id, c.name, c.args, c.id)
	}
	return fmt.Sprintf(`{"model":%q,"max_tokens":100,"stream":%v,"temperature" : 0.70,%s,"messages":[%s]}`, a.model, a.stream, a.more, history)
}

// checkWords: the provider is told of tools, calls and results in words alone. A client of its own dialect has everything else
// passed on as it was.
func checkWords(t *testing.T, r fake.Request, format string, same bool) {
	t.Helper()
	body := string(r.Body)
	for _, not := range []string{`"tools":`, `"tool_calls"`, `"tool_use"`, `"tool_result"`, `"role":"tool"`} {
		if strings.Contains(body, not) {
			t.Errorf("the provider is sent %s: %s", not, body)
		}
	}
	call := `<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>`
	switch format {
	case "json":
		call = `[{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}]`
	case "qwen":
		if !strings.Contains(body, `<tool_response>\nblue sky\n</tool_response>`) {
			t.Errorf("no result in %s", body)
		}
	default:
		if !strings.Contains(body, `<tool_response>\n{\"name\": \"weather\", \"content\": \"blue sky\"}\n</tool_response>`) {
			t.Errorf("no result in %s", body)
		}
	}
	for _, want := range []string{call, `{\"type\": \"function\", \"function\": {\"name\": \"weather\"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if kept := strings.Contains(body, `"temperature" : 0.70`); kept != same {
		t.Errorf("what is not about tools is as it came: %v", kept)
	}
}

// TestEachAttemptHasItsOwnFormat: the request is written from the client's for each candidate, so that neither form shows in the other.
func TestEachAttemptHasItsOwnFormat(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"native", "hermes"} {
		second := map[string]string{"native": "hermes", "hermes": "native"}[first]
		one, two := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "one"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "two"})
		model := func(format string) []gateway.Model {
			return []gateway.Model{{ID: "m", Price: "{input: 1, output: 2}", More: "tool_format: " + format}}
		}
		g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
			{ID: "one", Fake: one, Models: model(first)}, {ID: "two", Fake: two, Models: model(second)},
		}})
		one.Behave(fake.Behaviour{Status: http.StatusInternalServerError})
		answers := map[string]fake.Behaviour{
			"native": {ToolCalls: []fake.ToolCall{{Name: "now", Args: "{}"}}}, "hermes": {Text: `<tool_call>{"name":"now"}</tool_call>`},
		}
		two.Behave(answers[second])
		for _, client := range bothDialects {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s and then %s, %s, stream=%v", first, second, client, stream), func(t *testing.T) {
					one.Forget()
					a := ask{dialect: client, model: "m", stream: stream, more: withTools(client)}
					if s := turnOf(t, a, g.Do(t, a.call())); s.names() != "now{}" || s.reason != toolReason(client, true) {
						t.Errorf("the turn is %+v", s)
					}
					if got := string(lastOf(t, two).Body); strings.Contains(got, `"tools":`) != (second == "native") || strings.Contains(got, "<tool_call>") == (second == "native") {
						t.Errorf("the second was sent %s", got)
					}
					if r, asked := one.Last(); asked && strings.Contains(string(r.Body), `"tools":`) != (first == "native") {
						t.Errorf("the first was sent %s", r.Body)
					}
				})
			}
		}
	}
}

// TestWithoutToolsTextIsText: nothing is parsed where nothing can be called, and the request passes as it came.
func TestWithoutToolsTextIsText(t *testing.T) {
	t.Parallel()
	g, at := startTextCallers(t)
	const says = `<tool_call>{"name": "now"}</tool_call>`
	at[fake.OpenAI].Behave(fake.Behaviour{Text: says})
	for _, more := range []string{`"temperature" : 0.70`, withTools(fake.OpenAI) + `,"tool_choice":"none"`} {
		for _, stream := range []bool{false, true} {
			a := ask{dialect: fake.OpenAI, model: "hermes-at-openai", stream: stream, more: more}
			if s := turnOf(t, a, g.Do(t, a.call())); s.text != says || len(s.calls) != 0 {
				t.Errorf("%s: the turn is %+v", more, s)
			}
			if got := string(lastOf(t, at[fake.OpenAI]).Body); !stream && more == `"temperature" : 0.70` && got != a.body() {
				t.Errorf("the provider was sent %s, want %s", got, a.body())
			}
		}
	}
}

// TestD86ToolsInThePromptAreNamed: and what nothing enforces there.
func TestD86ToolsInThePromptAreNamed(t *testing.T) {
	t.Parallel()
	g, at := startTextCallers(t)
	at[fake.OpenAI].Behave(fake.Behaviour{Text: `<tool_call>{"name": "now"}</tool_call>`})
	for _, row := range []struct {
		more, lost, says string
	}{
		{`"tool_choice":"auto"`, "tools->prompt", ""},
		{`"tool_choice":"required"`, "tools->prompt,tool_choice", "must call at least one function"},
		{`"tool_choice":{"type":"function","function":{"name":"now"}}`, "tools->prompt,tool_choice", "must call the function now"},
		{`"parallel_tool_calls":false`, "tools->prompt,parallel_tool_calls", "at most one function"},
	} {
		a := ask{dialect: fake.OpenAI, model: "hermes-at-openai", more: withTools(fake.OpenAI) + "," + row.more}
		got := g.Do(t, a.call())
		if s := turnOf(t, a, got); len(s.calls) != 1 || got.Header.Get("X-Bardo-Degraded") != row.lost {
			t.Errorf("%s: the turn is %+v, degraded %q", row.more, s, got.Header.Get("X-Bardo-Degraded"))
		}
		if body := string(lastOf(t, at[fake.OpenAI]).Body); !strings.Contains(body, row.says) || strings.Contains(body, row.more) {
			t.Errorf("%s: the provider was sent %s", row.more, body)
		}
	}
	if r := recordOf(t, g, g.Do(t, ask{dialect: fake.OpenAI, model: "hermes-at-openai", more: withTools(fake.OpenAI) + `,"tool_choice":"required"`}.call())); !slices.Equal(r.Degraded, []string{"tools->prompt", "tool_choice"}) {
		t.Errorf("the record says %q", r.Degraded)
	}
}

// TestLongCallIsNoSilence: what is held back until a call is whole counts as an answer; neither time-out ends it.
func TestLongCallIsNoSilence(t *testing.T) {
	t.Parallel()
	g, at := startTextCallers(t)
	at[fake.OpenAI].Behave(fake.Behaviour{Text: `<tool_call> {"name": "weather", "arguments": {"city": "Oslo"}} </tool_call>`, Gap: 300 * time.Millisecond})
	for _, client := range bothDialects {
		a := ask{dialect: client, model: "hermes-at-openai", stream: true, more: withTools(client)}
		if s := turnOf(t, a, g.Do(t, a.call())); s.names() != `weather{"city": "Oslo"}` {
			t.Errorf("%s: the turn is %+v", client, s)
		}
	}
}

// TestCallsInTextAreStoredAsCalls: a stored answer is told as calls, in the other form too.
func TestCallsInTextAreStoredAsCalls(t *testing.T) {
	t.Parallel()
	g, at := startTextCallers(t)
	at[fake.OpenAI].Behave(fake.Behaviour{Text: `ok <tool_call>{"name": "now"}</tool_call>`})
	for _, client := range bothDialects {
		var first spokenTurn
		for i, stream := range []bool{false, true, false} {
			a := ask{dialect: client, model: "hermes-at-openai", stream: stream, say: "again, " + string(client), more: withTools(client) + `,"temperature":0`}
			got := g.Do(t, a.call())
			s := turnOf(t, a, got)
			if i == 0 {
				first = s
			}
			if s.text != "ok " || s.names() != "now{}" || s.calls[0].id != first.calls[0].id || s.reason != toolReason(client, true) {
				t.Errorf("%s, stream=%v: the turn is %+v, the first was %+v", client, stream, s, first)
			}
		}
	}
	if n := len(at[fake.OpenAI].Generations()); n != len(bothDialects) {
		t.Errorf("the provider was asked %d times", n)
	}
}
