package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/extproc/chat"
	wireformats "bardo.money/gateway/extproc/wire/formats"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// guardedAsk is a request with two tools, in one of three formats.
type guardedAsk struct {
	dialect chat.Dialect
	model   string
	stream  bool
}

func (a guardedAsk) call(more string, h ...string) gateway.Call {
	const schema = `{"type":"object","properties":{"usd":{"type":"number"},"of":{"type":"string"}}}`
	c := gateway.Call{Header: h}
	switch a.dialect {
	case chat.Anthropic:
		c.Path, c.Header = "/v1/messages", append(c.Header, "anthropic-version: 2023-06-01")
		c.Body = `{"model":%q,"stream":%v,"max_tokens":100,"messages":[{"role":"user","content":"the secret is MARZIPAN"}],"tools":[{"name":"get_price","input_schema":` + schema + `},{"name":"transfer","input_schema":` + schema + `}]%s}`
	case chat.Responses:
		c.Path = "/v1/responses"
		c.Body = `{"model":%q,"stream":%v,"input":"the secret is MARZIPAN","tools":[{"type":"function","name":"get_price","parameters":` + schema + `},{"type":"function","name":"transfer","parameters":` + schema + `}]%s}`
	default:
		c.Path = "/v1/chat/completions"
		c.Body = `{"model":%q,"stream":%v,"messages":[{"role":"user","content":"the secret is MARZIPAN"}],"tools":[{"type":"function","function":{"name":"get_price","parameters":` + schema + `}},{"type":"function","function":{"name":"transfer","parameters":` + schema + `}}]%s}`
	}
	c.Body = fmt.Sprintf(c.Body, a.model, a.stream, more)
	return c
}

func (a guardedAsk) String() string {
	return fmt.Sprintf("%s at %s, stream %v", a.dialect, a.model, a.stream)
}

// guardedAsks are all formats at a provider of the same format and at one of another.
func guardedAsks() (all []guardedAsk) {
	for _, d := range []chat.Dialect{chat.OpenAI, chat.Anthropic, chat.Responses} {
		for _, model := range []string{"m", "n"} {
			all = append(all, guardedAsk{d, model, false}, guardedAsk{d, model, true})
		}
	}
	return all
}

// parsedAnswer is what a client reads of an answer.
type parsedAnswer struct {
	text   string
	calls  []string // name and arguments
	reason chat.StopReason
	failed string
}

// parseAnswer reads an answer with the decoder of the client's format.
func parseAnswer(t *testing.T, a guardedAsk, got gateway.Answer) (h parsedAnswer) {
	t.Helper()
	kind := "application/json"
	if a.stream {
		kind = "text/event-stream"
	}
	dec := wireformats.NewDecoder(a.dialect, &chat.Request{Dialect: a.dialect, Stream: a.stream, Choices: 1}, http.StatusOK, header.List{{Name: "content-type", Value: kind}})
	events := dec.Decode([]byte(got.Body), true)
	at := map[int]int{}
	for i := range events {
		ev := &events[i]
		switch ev.Kind { //nolint:exhaustive // what a client acts on
		case chat.Text:
			h.text += string(ev.Text)
		case chat.ToolStart:
			at[ev.Index] = len(h.calls)
			h.calls = append(h.calls, ev.Tool.Name)
		case chat.ToolArgs:
			h.calls[at[ev.Index]] += string(ev.Text)
		case chat.Stop:
			h.reason = ev.Reason
		case chat.Error:
			h.failed = ev.Err.Code + ev.Err.Type + ": " + ev.Err.Message
		}
	}
	return h
}

// amount is what no log, header and event may tell: long enough to be in no timestamp and no identifier.
const amount = "71828182"

const transfers, price = `transfer{"usd":` + amount + `}`, `get_price{"of":"ETH"}`

// twoCalls is an answer that calls both tools.
var twoCalls = fake.Behaviour{Text: "I look.", ToolCalls: []fake.ToolCall{{Name: "transfer", Args: `{"usd":` + amount + `}`, Pieces: 4}, {Name: "get_price", Args: `{"of":"ETH"}`, Pieces: 2}}}

// guarded is a gateway with providers of two formats, whose answers make two calls.
func guarded(t *testing.T, config string) (*gateway.Gateway, map[string]*fake.Server) {
	t.Helper()
	own := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	other := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Key: "sk-a"})
	for _, p := range []*fake.Server{own, other} {
		p.Behave(twoCalls)
	}
	return gateway.Run(t, gateway.Options{Config: quick + config + fmt.Sprintf(`
providers:
  custom:
    - {id: own, endpoints: [%q], api_key: sk-o, responses: true, models: [{id: m}]}
    - {id: other, format: anthropic, endpoints: [%q], api_key: sk-a, models: [{id: n}]}
`, own.URL, other.URL)}), map[string]*fake.Server{"m": own, "n": other}
}

// decisionsOf are the decisions in a request's record.
func decisionsOf(t *testing.T, g *gateway.Gateway, got gateway.Answer) []policy.Tag {
	t.Helper()
	var r struct{ Decisions []policy.Tag }
	id := got.Header.Get("X-Request-Id")
	eventually(t, "the record of "+id, func() bool {
		a := g.Do(t, gateway.Call{Path: "/v1/requests/" + id})
		if a.Status == http.StatusOK {
			a.JSON(t, &r)
		}
		return a.Status == http.StatusOK
	})
	return r.Decisions
}

// TestF03ACallThatARuleForbidsIsRemoved: in every format, streamed or not, the other call stays, and a text says what was removed.
func TestF03ACallThatARuleForbidsIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	events := filepath.Join(dir, "events")
	g, _ := guarded(t, fmt.Sprintf(`
telemetry: {log_level: debug, events: %q}
pipeline:
  firewall:
    rules:
      - {id: max-500, tools: [transfer], condition: "args.usd <= 500.0"}
`, "file:"+events))
	for _, a := range guardedAsks() {
		got := g.Do(t, a.call(""))
		h := parseAnswer(t, a, got)
		if got.Status != http.StatusOK || !slices.Equal(h.calls, []string{price}) || h.reason != chat.StopTool || !strings.HasPrefix(h.text, "I look.") || !strings.Contains(h.text, `removed a call of the tool "transfer"`) || strings.Contains(got.Body, amount) {
			t.Errorf("%s: %d %+v\n%s", a, got.Status, h, got.Body)
		}
		const counts = "call-removed=1, call-allowed=1"
		if a.stream {
			if !strings.Contains(got.Body, `"firewall":"`+counts+`"`) {
				t.Errorf("%s: the last comment: %s", a, got.Body)
			}
		} else if said := got.Header.Get("X-Bardo-Firewall"); said != counts {
			t.Errorf("%s: X-Bardo-Firewall: %q", a, said)
		}
		want := []policy.Tag{
			{By: "firewall", Rule: "max-500", Stage: policy.StageCall, Tool: "transfer", Decision: "removed", Reason: "condition"},
			{By: "firewall", Stage: policy.StageCall, Tool: "other", Decision: "allowed"},
		}
		if tags := decisionsOf(t, g, got); !slices.Equal(tags, want) {
			t.Errorf("%s: the record has %+v", a, tags)
		}
	}
	n := float64(len(guardedAsks()))
	eventually(t, "the metrics", func() bool {
		return g.Metrics(t).Sum("bardo_rule_decisions_total", `rule="max-500"`, `decision="removed"`, `reason="condition"`) == n
	})
	eventually(t, "the events", func() bool {
		b, _ := os.ReadFile(events)
		return strings.Count(string(b), `"policy:decision"`) == int(n)
	})
	b, err := os.ReadFile(events)
	if err != nil || strings.Contains(string(b), amount) || strings.Contains(g.Log(), amount) || strings.Contains(g.Log(), "MARZIPAN") {
		t.Errorf("%v: arguments are told: %s", err, b)
	}
}

// TestF03ARefusedCallIsAnError: with its status where nothing was sent, else at the end of the stream; the call is charged.
func TestF03ARefusedCallIsAnError(t *testing.T) {
	t.Parallel()
	g, at := guarded(t, `
pipeline:
  firewall:
    rules:
      - {id: none, tools: [transfer], condition: "args.usd <= 500.0", on_violation: refuse}
`)
	for _, text := range []string{"I look.", ""} {
		for _, p := range at {
			b := twoCalls
			b.Text = text
			p.Behave(b)
		}
		for _, a := range guardedAsks() {
			for _, p := range at {
				p.Forget()
			}
			got := g.Do(t, a.call(""))
			begun := a.stream && text != ""
			if (got.Status == http.StatusOK) != begun || !begun && got.Status != http.StatusForbidden || !strings.Contains(got.Body, `"tool_refused"`) || strings.Contains(got.Body, amount) || !strings.Contains(got.Body, `transfer`) {
				t.Errorf("%s, text %q: %d %s", a, text, got.Status, got.Body)
			}
			if begun {
				if h := parseAnswer(t, a, got); h.failed == "" || h.text != text || len(h.calls) != 0 {
					t.Errorf("%s: %+v", a, h)
				}
			} else if got.Header.Get("X-Bardo-Firewall") != "call-refused=1, call-allowed=1" || got.Header.Get("X-Should-Retry") != "false" || got.Header.Get("X-Bardo-Cost") == "" {
				t.Errorf("%s: %v", a, got.Header)
			}
			if n := len(at["m"].Generations()) + len(at["n"].Generations()); n != 1 {
				t.Errorf("%s: %d calls of providers", a, n)
			}
			r := recordOf(t, g, got)
			if r.Status != "refused" || r.OutputTokens == 0 {
				t.Errorf("%s: the record: %+v", a, r)
			}
		}
	}
}

// TestF03ToolsThatMayNotBeOfferedDoNotReachAProvider: by rules of a key and of a subsystem, at providers of both formats.
func TestF03ToolsThatMayNotBeOfferedDoNotReachAProvider(t *testing.T) {
	t.Parallel()
	g, at := guarded(t, `
pipeline:
  firewall:
    rules:
      - {id: read-only, keys: [reader], allow: ["get_*"]}
      - {id: risk, subsystems: [risk], deny: ["transfer"]}
`)
	reader := g.CreateKey(t, "--name", "reader").Key
	for _, a := range guardedAsks() {
		for about, row := range map[string]struct {
			key     string
			header  []string
			removed string
		}{
			"another key":   {"", nil, ""},
			"the reader":    {reader, nil, "read-only"},
			"the subsystem": {"", []string{"X-Bardo-Subsystem: risk"}, "risk"},
		} {
			p := at[a.model]
			p.Forget()
			c := a.call("", row.header...)
			c.Key = row.key
			got := g.Do(t, c)
			if len(p.Generations()) == 0 {
				t.Fatalf("%s, %s: %d %s", a, about, got.Status, got.Body)
			}
			sent := toolsOf(t, string(p.Generations()[0].Body))
			if slices.Contains(sent, "transfer") == (row.removed != "") || !slices.Contains(sent, "get_price") {
				t.Errorf("%s, %s: the provider gets %v", a, about, sent)
			}
			if said := got.Header.Get("X-Bardo-Firewall"); strings.HasPrefix(said, "tools-removed=1") != (row.removed != "") {
				t.Errorf("%s, %s: %q", a, about, said)
			}
			if h := parseAnswer(t, a, got); slices.Contains(h.calls, transfers) == (row.removed != "") { // the fake calls it nevertheless
				t.Errorf("%s, %s: %+v", a, about, h)
			}
		}
	}
	c := guardedAsk{chat.OpenAI, "m", false}.call(`,"tool_choice":{"type":"function","function":{"name":"transfer"}}`)
	c.Key = reader
	at["m"].Forget()
	if got := g.Do(t, c); got.Status != http.StatusForbidden || !strings.Contains(got.Body, `"tool_refused"`) || !strings.Contains(got.Body, `"param":"tool_choice"`) || len(at["m"].Generations()) != 0 {
		t.Errorf("a forced tool: %d %s", got.Status, got.Body)
	}
}

func toolsOf(t *testing.T, body string) []string {
	t.Helper()
	return toolsIn(t, body)
}

// TestF03FlagsAndShadowsOnlyRecord: the answer of a provider of the client's format passes byte for byte, as it does where all calls are allowed.
func TestF03FlagsAndShadowsOnlyRecord(t *testing.T) {
	t.Parallel()
	body := func(d chat.Dialect) string {
		if d == chat.Anthropic {
			return "event: message_start\ndata: {\"type\":\"message_start\", \"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"n\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n" +
				"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"transfer\",\"input\":{}}}\n\n" +
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"usd\\\":5}\"}}\n\n" +
				"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
				"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":4}}\n\n" +
				"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
		}
		chunk := func(delta, finish string) string {
			return `data: {"id":"c1","object":"chat.completion.chunk",  "created":1,"model":"m","choices":[{"index":0,"delta":{` + delta + `},"finish_reason":` + finish + `}]}` + "\n\n"
		}
		return chunk(`"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"transfer","arguments":""}}]`, "null") +
			chunk(`"tool_calls":[{"index":0,"function":{"arguments":"{\"usd\":5}"}}]`, "null") + chunk("", `"tool_calls"`) + "data: [DONE]\n\n"
	}
	for about, row := range map[string]struct{ config, want string }{
		"allowed": {`{rules: [{id: r, condition: "args.usd < 10.0", schema: '{"required":["usd"]}', check_arguments: true}]}`, "call-allowed=1"},
		"flag":    {`{rules: [{id: r, condition: "args.usd < 1.0", on_violation: flag}]}`, "call-flagged=1"},
		"shadow":  {`{rules: [{id: r, condition: "args.usd < 1.0", shadow: true}]}`, "shadow-call-removed=1"},
		"all":     {`{shadow: true, rules: [{id: r, schema: '{"properties":{"usd":{"maximum":1}}}', on_violation: refuse}]}`, "shadow-call-refused=1"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			g, at := guarded(t, "pipeline: {firewall: "+row.config+"}\n")
			for _, a := range []guardedAsk{{chat.OpenAI, "m", true}, {chat.Anthropic, "n", true}} {
				at[a.model].Behave(fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: text/event-stream"}, Body: body(a.dialect)}})
				got := g.Do(t, a.call(""))
				before, rest, found := strings.Cut(got.Body, ": bardo ")
				_, after, _ := strings.Cut(rest, "\n")
				if before+after != body(a.dialect) || !found {
					t.Errorf("%s: the client gets\n%s\nwant\n%s", a, got.Body, body(a.dialect))
				}
				if !strings.Contains(rest, `"firewall":"`+row.want+`"`) {
					t.Errorf("%s: %s", a, rest)
				}
			}
		})
	}
}

// TestF03AStoredAnswerIsJudgedAnew: it was stored as the provider gave it.
func TestF03AStoredAnswerIsJudgedAnew(t *testing.T) {
	t.Parallel()
	g, at := guarded(t, `
pipeline:
  hash: all
  firewall: {rules: [{id: max-500, tools: [transfer], condition: "args.usd <= 500.0"}]}
`)
	for _, a := range []guardedAsk{{chat.OpenAI, "m", false}, {chat.OpenAI, "m", true}, {chat.Anthropic, "m", true}} {
		got := g.Do(t, a.call("", "X-Bardo-Replay: fast"))
		h := parseAnswer(t, a, got)
		if !slices.Equal(h.calls, []string{price}) || strings.Contains(got.Body, amount) {
			t.Errorf("%s: %+v\n%s", a, h, got.Body)
		}
	}
	if again := g.Do(t, guardedAsk{chat.OpenAI, "m", false}.call("")); again.Header.Get("X-Bardo-Cache") != "hash" || again.Header.Get("X-Bardo-Firewall") != "call-removed=1, call-allowed=1" || strings.Contains(again.Body, amount) {
		t.Errorf("%v %s, after %d calls", again.Header, again.Body, len(at["m"].Generations()))
	}
}
