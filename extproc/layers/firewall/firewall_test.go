package firewall_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/formats"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

var dialects = map[chat.Dialect]wire.Dialect{ //nolint:exhaustive // those of conversations
	chat.OpenAI: openai.Dialect{}, chat.Anthropic: anthropic.Dialect{}, chat.Responses: responses.Dialect{}, chat.Gemini: gemini.Dialect{},
}

// requests offer the tools get_price and transfer, whose amount is a number.
var requests = map[chat.Dialect]string{ //nolint:exhaustive // as above
	chat.OpenAI: `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"get_price","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"transfer","parameters":{"type":"object","properties":{"usd":{"type":"number"}},"required":["usd"]}}}]%s}`,
	chat.Anthropic: `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"get_price","input_schema":{"type":"object"}},` +
		`{"name":"transfer","input_schema":{"type":"object","properties":{"usd":{"type":"number"}},"required":["usd"]}}]%s}`,
	chat.Responses: `{"model":"m","stream":true,"input":"hi","tools":[{"type":"function","name":"get_price","parameters":{"type":"object"}},` +
		`{"type":"function","name":"transfer","parameters":{"type":"object","properties":{"usd":{"type":"number"}},"required":["usd"]}}]%s}`,
	chat.Gemini: `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"get_price","parameters":{"type":"object"}},` +
		`{"name":"transfer","parameters":{"type":"object","properties":{"usd":{"type":"number"}},"required":["usd"]}}]}]%s}`,
}

func exchange(t testing.TB, d chat.Dialect, more string, rules ...firewall.Rule) *pipeline.Exchange {
	t.Helper()
	x, err := prepared(t, d, more, firewall.Layer{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func prepared(t testing.TB, d chat.Dialect, more string, l firewall.Layer) (*pipeline.Exchange, error) {
	t.Helper()
	dialect := dialects[d]
	if a, ok := dialect.(wire.Addressed); ok {
		dialect = a.ForPath("/v1beta/models/m:streamGenerateContent", "alt=sse")
	}
	r, err := dialect.Decode(chat.Generate, header.List{}, "", []byte(strings.Replace(requests[d], "%s", more, 1)))
	if err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{ID: "req_1", Request: r, Principal: policy.Principal{Account: "key_1", Name: "trader", Tier: policy.TierPro}, Hints: policy.Hints{Subsystem: "risk"}}
	return x, pipeline.New(l).Request(t.Context(), x)
}

// piece is a part of a call in a stream.
type piece struct{ name, args string }

// stream is an answer in a provider's format: a text and calls, each call's arguments in pieces of n bytes. Calls are interleaved where the format allows it.
func stream(d chat.Dialect, n int, calls ...piece) string {
	var b strings.Builder
	frame := func(event, format string, args ...any) {
		if event != "" {
			fmt.Fprintf(&b, "event: %s\n", event)
		}
		fmt.Fprintf(&b, "data: "+format+"\n\n", args...)
	}
	switch d { //nolint:exhaustive // the formats of the tests
	case chat.OpenAI:
		chunk := func(delta, finish string) {
			frame("", `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":%s}],"odd":1.50}`, delta, finish)
		}
		chunk(`"role":"assistant","content":"I "`, "null")
		chunk(`"content":"look."`, "null")
		rest := make([][]string, len(calls))
		for i, c := range calls {
			rest[i] = cut(c.args, n)
			chunk(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":%q,"arguments":""}}]`, i, i, c.name), "null")
		}
		for more := true; more; {
			more = false
			for i := range rest {
				if len(rest[i]) > 0 {
					chunk(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%q}}]`, i, rest[i][0]), "null")
					rest[i], more = rest[i][1:], true
				}
			}
		}
		chunk("", `"tool_calls"`)
		frame("", `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`)
		frame("", "[DONE]")
	case chat.Anthropic:
		frame("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}`)
		frame("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		frame("ping", `{"type":"ping"}`)
		frame("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I look."}}`)
		frame("content_block_stop", `{"type":"content_block_stop","index":0}`)
		for i, c := range calls {
			frame("content_block_start", `{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"toolu_%d","name":%q,"input":{}}}`, i+1, i, c.name)
			for _, p := range cut(c.args, n) {
				frame("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%q}}`, i+1, p)
			}
			frame("content_block_stop", `{"type":"content_block_stop","index":%d}`, i+1)
		}
		frame("message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":4}}`)
		frame("message_stop", `{"type":"message_stop"}`)
	case chat.Responses:
		seq := 0
		event := func(kind, format string, args ...any) {
			frame(kind, `{"type":%q,"sequence_number":%d,%s}`, kind, seq, fmt.Sprintf(format, args...))
			seq++
		}
		const head = `"id":"resp_1","object":"response","model":"m"`
		event("response.created", `"response":{%s,"status":"in_progress","output":[]}`, head)
		message := `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[]}]}`
		event("response.output_item.added", `"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}`)
		event("response.content_part.added", `"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`)
		event("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"I look."`)
		event("response.output_text.done", `"item_id":"msg_1","output_index":0,"content_index":0,"text":"I look."`)
		event("response.output_item.done", `"output_index":0,"item":%s`, message)
		output := message
		for i, c := range calls {
			event("response.output_item.added", `"output_index":%d,"item":{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":%q,"arguments":"","status":"in_progress"}`, i+1, i, i, c.name)
			for _, p := range cut(c.args, n) {
				event("response.function_call_arguments.delta", `"item_id":"fc_%d","output_index":%d,"delta":%q`, i, i+1, p)
			}
			event("response.function_call_arguments.done", `"item_id":"fc_%d","output_index":%d,"arguments":%q`, i, i+1, c.args)
			item := fmt.Sprintf(`{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":%q,"arguments":%q,"status":"completed"}`, i, i, c.name, c.args)
			event("response.output_item.done", `"output_index":%d,"item":%s`, i+1, item)
			output += "," + item
		}
		event("response.completed", `"response":{%s,"status":"completed","output":[%s],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`, head, output)
	case chat.Gemini:
		frame("", `{"candidates":[{"content":{"parts":[{"text":"I look."}],"role":"model"},"index":0}],"modelVersion":"m","responseId":"r1"}`)
		var parts []string
		for _, c := range calls {
			parts = append(parts, fmt.Sprintf(`{"functionCall":{"name":%q,"args":%s}}`, c.name, c.args))
		}
		frame("", `{"candidates":[{"content":{"parts":[%s],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7},"modelVersion":"m","responseId":"r1"}`, strings.Join(parts, ","))
	}
	return b.String()
}

func cut(s string, n int) (out []string) {
	for len(s) > n {
		out, s = append(out, s[:n]), s[n:]
	}
	return append(out, s)
}

// pass decodes a provider's stream, passes it through the layer, and encodes it for the client of an exchange. cuts are where its bytes are split.
func pass(t testing.TB, x *pipeline.Exchange, from chat.Dialect, body string, cuts ...int) (string, error) {
	t.Helper()
	dec := formats.NewDecoder(from, x.Request, 200, header.List{{Name: "content-type", Value: "text/event-stream"}})
	enc := dialects[x.Request.Dialect].NewEncoder(wire.Options{Same: from == x.Request.Dialect, Stream: true, ShowUsage: true, RequestID: "r1", Created: 1, MayChange: x.MayChange, Request: x.Request})
	var out []byte
	at := 0
	for _, end := range append(slices.Clone(cuts), len(body)) {
		chunk := []byte(body[at:end])
		events := dec.Decode(chunk, end == len(body))
		if x.MayChange {
			chat.MarkCalls(events)
		}
		for i := range events {
			if events[i].Kind == chat.Error {
				t.Fatalf("the answer cannot be read: %+v", events[i].Err)
			}
			passed := events[i : i+1]
			if x.Watched() {
				var err error
				if passed, err = x.Response(t.Context(), &events[i]); err != nil {
					return string(out), err
				}
			}
			for j := range passed {
				out = enc.Append(out, &passed[j])
			}
		}
		for i := range chunk {
			chunk[i] = '#' // events are valid until the next call
		}
		at = end
	}
	return string(out), nil
}

// clientAnswer is an answer as a client reads it.
type clientAnswer struct {
	text   string
	calls  []piece
	reason chat.StopReason
	starts int
}

// read decodes an answer in the client's format.
func read(t testing.TB, d chat.Dialect, body string) (s clientAnswer) {
	t.Helper()
	r := &chat.Request{Dialect: d, Stream: true, Choices: 1}
	dec := formats.NewDecoder(d, r, 200, header.List{{Name: "content-type", Value: "text/event-stream"}})
	events := dec.Decode([]byte(body), true)
	open := map[int]int{}
	for i := range events {
		ev := &events[i]
		switch ev.Kind { //nolint:exhaustive // what a client acts on
		case chat.Error:
			t.Fatalf("the client cannot read it: %+v\n%s", ev.Err, body)
		case chat.Text:
			s.text += string(ev.Text)
		case chat.Start:
			s.starts++
		case chat.ToolStart:
			open[ev.Index] = len(s.calls)
			s.calls = append(s.calls, piece{name: ev.Tool.Name})
		case chat.ToolArgs:
			s.calls[open[ev.Index]].args += string(ev.Text)
		case chat.Stop:
			s.reason = ev.Reason
		}
	}
	return s
}

var all = []chat.Dialect{chat.OpenAI, chat.Anthropic, chat.Responses, chat.Gemini}

// condition compiles a valid condition.
func condition(t testing.TB, text string) *rule.Condition {
	t.Helper()
	c, err := rule.ParseCondition(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestK01K07AnAnswerWithoutViolationsPassesByteForByte, wherever it is split, with parallel and interleaved calls.
func TestK01K07AnAnswerWithoutViolationsPassesByteForByte(t *testing.T) {
	t.Parallel()
	for _, d := range all {
		body := stream(d, 3, piece{"transfer", `{"usd":5,"to":"0xab"}`}, piece{"get_price", `{}`})
		for at := 0; at < len(body); at += 3 {
			x := exchange(t, d, "", firewall.Rule{ID: "a", Allow: rule.Names{"*"}, Condition: condition(t, "tool != 'transfer' || args.usd <= 5.0")})
			got, err := pass(t, x, d, body, at)
			if err != nil || got != body {
				t.Fatalf("%s, cut at %d: %v\n%s\nwant\n%s", d, at, err, got, body)
			}
			if x.Holding || len(x.Tags) != 2 || x.Tags[0].Decision != policy.DecisionAllowed {
				t.Fatalf("%s: holds %v, tags %+v", d, x.Holding, x.Tags)
			}
		}
	}
}

// TestK03K09ARemovedCallLeavesATextAndTheRightReason, for each provider's and each client's format.
func TestK03K09ARemovedCallLeavesATextAndTheRightReason(t *testing.T) {
	t.Parallel()
	const price, small, large = `{"of":"ETH"}`, `{"usd":5}`, `{"usd":5000}`
	limit := func() firewall.Rule {
		return firewall.Rule{ID: "limit", Tools: rule.Names{"transfer"}, Condition: condition(t, "args.usd <= 500.0")}
	}
	for _, from := range all {
		for _, to := range all {
			for about, row := range map[string]struct {
				calls, left []piece
			}{
				"the only one":      {[]piece{{"transfer", large}}, nil},
				"the first of two":  {[]piece{{"transfer", large}, {"get_price", price}}, []piece{{"get_price", price}}},
				"the last of two":   {[]piece{{"get_price", price}, {"transfer", large}}, []piece{{"get_price", price}}},
				"one in the middle": {[]piece{{"get_price", price}, {"transfer", large}, {"transfer", small}}, []piece{{"get_price", price}, {"transfer", small}}},
				"both":              {[]piece{{"transfer", large}, {"transfer", large}}, nil},
			} {
				body := stream(from, 4, row.calls...)
				got, err := pass(t, exchange(t, to, "", limit()), from, body, len(body)/3, len(body)/2)
				if err != nil {
					t.Fatal(err)
				}
				s := read(t, to, got)
				reason := chat.StopTool
				if len(row.left) == 0 {
					reason = chat.StopEnd
				}
				if !slices.Equal(s.calls, row.left) || s.reason != reason || s.starts != 1 || strings.Contains(got, "5000") {
					t.Errorf("%s to %s, %s: %+v, want %v and %s\n%s", from, to, about, s, row.left, reason, got)
				}
				if n := strings.Count(s.text, `removed a call of the tool "transfer"`); !strings.HasPrefix(s.text, "I look.") || n != len(row.calls)-len(row.left) {
					t.Errorf("%s to %s, %s: it says %q", from, to, about, s.text)
				}
			}
		}
	}
}

// A client that gets only the beginning of a stream gets no part of a call that was not judged.
func TestNothingOfACallIsSentBeforeItIsComplete(t *testing.T) {
	t.Parallel()
	for _, d := range all {
		body := stream(d, 2, piece{"transfer", `{"usd":5000,"secret":"value"}`})
		for at := 0; at < len(body); at += 3 {
			x := exchange(t, d, "", firewall.Rule{ID: "a", Condition: condition(t, "args.usd <= 500.0")})
			got, err := pass(t, x, d, body, at)
			if err != nil || strings.Contains(got, "5000") || strings.Contains(got, "value") || !strings.Contains(got, "look.") {
				t.Fatalf("%s, cut at %d: %v %s", d, at, err, got)
			}
		}
	}
}

func TestEachKindOfViolationIsFound(t *testing.T) {
	t.Parallel()
	schema, err := rule.ParseSchema(`{"properties":{"usd":{"maximum":10}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for about, row := range map[string]struct {
		rule firewall.Rule
		call piece
		want string
	}{
		"a tool that is denied":       {firewall.Rule{Deny: rule.Names{"trans*"}}, piece{"transfer", `{"usd":1}`}, "denied"},
		"a tool that is not allowed":  {firewall.Rule{Allow: rule.Names{"get_*"}}, piece{"transfer", `{"usd":1}`}, "not_allowed"},
		"no tool is allowed":          {firewall.Rule{Allow: rule.Names{}}, piece{"get_price", `{}`}, "not_allowed"},
		"its own schema":              {firewall.Rule{OwnSchema: true}, piece{"transfer", `{"usd":"5"}`}, "arguments"},
		"a missing argument":          {firewall.Rule{OwnSchema: true}, piece{"transfer", ``}, "arguments"},
		"a tool that was not offered": {firewall.Rule{OwnSchema: true}, piece{"format_disk", `{}`}, "not_offered"},
		"the operator's schema":       {firewall.Rule{Schema: schema}, piece{"transfer", `{"usd":11}`}, "schema"},
		"a condition":                 {firewall.Rule{Condition: condition(t, "args.usd < 10")}, piece{"transfer", `{"usd":11}`}, "condition"},
		"a condition without a value": {firewall.Rule{Condition: condition(t, "args.usd < 10")}, piece{"transfer", `{"eur":1}`}, "condition_failed"},
		"arguments that are not JSON": {firewall.Rule{Condition: condition(t, "true")}, piece{"transfer", `{"usd":`}, "invalid_arguments"},
		"a member twice":              {firewall.Rule{Condition: condition(t, "args.usd < 10")}, piece{"transfer", `{"usd":1,"usd":11}`}, "invalid_arguments"},
		"a member in another case":    {firewall.Rule{Condition: condition(t, "args.usd < 10")}, piece{"transfer", `{"usd":1,"USD":11}`}, "invalid_arguments"},
		"too much":                    {firewall.Rule{Condition: condition(t, "true")}, piece{"transfer", `{"a":"` + strings.Repeat("x", rule.MaxArgs) + `"}`}, "too_large"},
		"the caller":                  {firewall.Rule{Condition: condition(t, "key == 'key_1' && key_name == 'trader' && tier == 'pro' && subsystem == 'risk' && vitality < 1.0")}, piece{"get_price", `{}`}, "condition"},
		"another tool":                {firewall.Rule{Tools: rule.Names{"transfer"}, Condition: condition(t, "false")}, piece{"get_price", `{}`}, ""},
		"it complies with all":        {firewall.Rule{OwnSchema: true, Schema: schema, Condition: condition(t, "args.usd == 5")}, piece{"transfer", `{"usd":5}`}, ""},
	} {
		row.rule.ID = "r"
		n := max(1, len(row.call.args)/3)
		x := exchange(t, chat.OpenAI, "", row.rule)
		x.Untag("nobody")
		x.Tags = nil // those of the tools
		got, err := pass(t, x, chat.OpenAI, stream(chat.OpenAI, n, row.call))
		if err != nil {
			t.Fatal(err)
		}
		s := read(t, chat.OpenAI, got)
		decision := policy.DecisionRemoved
		if row.want == "" {
			decision = policy.DecisionAllowed
		}
		if len(x.Tags) != 1 || x.Tags[0].Reason != row.want || x.Tags[0].Decision != decision || (len(s.calls) == 0) != (row.want != "") {
			t.Errorf("%s: tags %+v, calls %d; want %q", about, x.Tags, len(s.calls), row.want)
		}
	}
}

func TestARefusedCallEndsTheAnswerInAnError(t *testing.T) {
	t.Parallel()
	for _, d := range all {
		x := exchange(t, d, "", firewall.Rule{ID: "limit", Condition: condition(t, "args.usd <= 500"), OnViolation: firewall.Refuse})
		got, err := pass(t, x, d, stream(d, 4, piece{"transfer", `{"usd":5000}`}, piece{"get_price", `{}`}))
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.ToolRefused || !strings.Contains(f.Public, `"transfer"`) || !strings.Contains(f.Public, "rule limit") || strings.Contains(f.Error(), "transfer") {
			t.Errorf("%s: %v", d, err)
		}
		if strings.Contains(got, "5000") || !strings.Contains(got, "look.") || x.Tags[0].Decision != policy.DecisionRefused {
			t.Errorf("%s: %s, %+v", d, got, x.Tags)
		}
	}
}

// Rules that only record, and those in shadow, change no byte.
func TestFlagsAndShadowsChangeNothing(t *testing.T) {
	t.Parallel()
	strict := firewall.Rule{ID: "r", Deny: rule.Names{"transfer"}, Condition: condition(t, "false"), OnViolation: firewall.Refuse}
	shadow, flag := strict, strict
	shadow.Shadow, flag.OnViolation, flag.Deny, flag.Tools = true, firewall.Flag, nil, rule.Names{"transfer"}
	for about, row := range map[string]struct {
		layer  firewall.Layer
		want   policy.Tag
		offers bool
	}{
		"a rule in shadow":   {firewall.Layer{Rules: []firewall.Rule{shadow}}, policy.Tag{Decision: policy.DecisionRefused, Reason: "denied", Shadow: true}, true},
		"a layer in shadow":  {firewall.Layer{Rules: []firewall.Rule{strict}, Shadow: true}, policy.Tag{Decision: policy.DecisionRefused, Reason: "denied", Shadow: true}, true},
		"a rule that flags":  {firewall.Layer{Rules: []firewall.Rule{flag}}, policy.Tag{Decision: policy.DecisionFlagged, Reason: "condition"}, false},
		"flags without room": {firewall.Layer{Rules: []firewall.Rule{flag}, Shadow: true}, policy.Tag{Decision: policy.DecisionFlagged, Reason: "condition", Shadow: true}, false},
	} {
		x, err := prepared(t, chat.Anthropic, "", row.layer)
		if err != nil {
			t.Fatal(err)
		}
		body := stream(chat.Anthropic, 3, piece{"transfer", `{"usd":5000}`})
		got, err := pass(t, x, chat.Anthropic, body)
		last := x.Tags[len(x.Tags)-1]
		if err != nil || got != body || last.Decision != row.want.Decision || last.Reason != row.want.Reason || last.Shadow != row.want.Shadow || last.Tool != "transfer" || last.Rule != "r" {
			t.Errorf("%s: %v, %+v", about, err, x.Tags)
		}
		if row.offers != (x.Tags[0].Stage == policy.StageTools && x.Tags[0].Shadow) || !strings.Contains(string(x.Request.Doc.Bytes), "transfer") {
			t.Errorf("%s: the tools: %+v", about, x.Tags)
		}
	}
}

// Arguments after the end of their call cannot change what was judged.
func TestLateArgumentsAreDropped(t *testing.T) {
	t.Parallel()
	body := stream(chat.OpenAI, 100, piece{"transfer", `{"usd":5}`})
	late := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"5000"}}]},"finish_reason":null}]}` + "\n\n"
	body = strings.Replace(body, "data: [DONE]", late+"data: [DONE]", 1)
	for at := 0; at < len(body); at += 3 {
		x := exchange(t, chat.OpenAI, "", firewall.Rule{ID: "limit", Condition: condition(t, "args.usd <= 500")})
		got, err := pass(t, x, chat.OpenAI, body, at)
		if s := read(t, chat.OpenAI, got); err != nil || len(s.calls) != 1 || s.calls[0].args != `{"usd":5}` {
			t.Fatalf("cut at %d: %v, %+v\n%s", at, err, s, got)
		}
	}
}

func TestToolsThatMayNotBeOfferedAreRemoved(t *testing.T) {
	t.Parallel()
	for _, d := range all {
		x := exchange(t, d, "", firewall.Rule{ID: "r", Deny: rule.Names{"transfer"}})
		sent := string(x.Request.Doc.Bytes)
		if strings.Contains(sent, "transfer") || !strings.Contains(sent, "get_price") || len(x.Tags) != 1 || x.Tags[0] != (policy.Tag{By: "firewall", Rule: "r", Stage: policy.StageTools, Tool: "transfer", Decision: "removed", Reason: "denied"}) {
			t.Errorf("%s: %s, %+v", d, sent, x.Tags)
		}
		if x.Log[0].Note != "removed=1" {
			t.Errorf("%s: %+v", d, x.Log)
		}
		if _, err := x.Request.Conversation(); err != nil {
			t.Errorf("%s: %v", d, err)
		}
		x = exchange(t, d, "", firewall.Rule{ID: "r", Allow: rule.Names{}})
		if sent := string(x.Request.Doc.Bytes); strings.Contains(sent, "tools") || len(x.Tags) != 2 {
			t.Errorf("%s without any tool: %s, %+v", d, sent, x.Tags)
		}
	}
}

func TestProvidersToolsOutsideOfTheListAreOffered(t *testing.T) {
	t.Parallel()
	for more, kept := range map[string]bool{`,"web_search_options":{}`: false, `,"mcp_servers":[{"name":"a","url":"https://a.example"}]`: false, `,"seed":5`: true} {
		x := exchange(t, chat.OpenAI, more, firewall.Rule{ID: "r", Allow: rule.Names{"get_*", "transfer"}})
		if got := strings.Contains(string(x.Request.Doc.Bytes), more[2:6]); got != kept {
			t.Errorf("%s: %s", more, x.Request.Doc.Bytes)
		}
	}
	x := exchange(t, chat.Responses, "", firewall.Rule{ID: "r", Deny: rule.Names{"get_price", "transfer"}})
	if _, err := x.Request.Conversation(); err != nil {
		t.Error(err)
	}
}

// offered is a request of a format with a list of tools.
func offered(t *testing.T, d chat.Dialect, body string, h policy.Profile, rules ...firewall.Rule) (*pipeline.Exchange, error) {
	t.Helper()
	dialect := dialects[d]
	if a, ok := dialect.(wire.Addressed); ok {
		dialect = a.ForPath("/v1beta/models/m:generateContent", "")
	}
	r, err := dialect.Decode(chat.Generate, header.List{}, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if h.WebSearch != nil {
		r.Profile = &chat.Profile{Default: chat.Params{WebSearch: h.WebSearch}}
	}
	x := &pipeline.Exchange{ID: "req_1", Request: r}
	return x, pipeline.New(firewall.Layer{Rules: rules}).Request(t.Context(), x)
}

// TestNoOtherSpellingOffersAToolThatIsRefused: names that a provider ignores, groups, several tools in one element, other members, and hints.
func TestNoOtherSpellingOffersAToolThatIsRefused(t *testing.T) {
	t.Parallel()
	const chatBody, responsesBody, geminiBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],%s}`, `{"model":"m","input":"hi",%s}`, `{"contents":[{"parts":[{"text":"hi"}]}],%s}`
	const anthropicBody = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],%s}`
	only := firewall.Rule{ID: "r", Allow: rule.Names{"get_*", "web_fetch", "googleMaps"}}
	deny := firewall.Rule{ID: "r", Deny: rule.Names{"transfer", "web_search*", "googleSearch", "mcp"}}
	for _, row := range []struct {
		dialect      chat.Dialect
		body, member string
		gone, stays  string // in what is sent
		rule         firewall.Rule
	}{
		{chat.Responses, responsesBody, `"tools":[{"type":"web_search","name":"get_price"},{"type":"function","name":"get_x"}]`, "web_search", "get_x", only},
		{chat.Responses, responsesBody, `"tools":[{"type":"function","name":"transfer","function":{"name":"get_y"}},{"type":"function","name":"get_x"}]`, "transfer", "get_x", only},
		{chat.Responses, responsesBody, `"tools":[{"type":"namespace","name":"get_all","tools":[{"type":"function","name":"transfer"}]},{"type":"function","name":"get_x"}]`, "transfer", "get_x", deny},
		{chat.Responses, responsesBody, `"tools":[{"type":"namespace","name":"crm","tools":[{"type":"function","name":"get_y"}]}]`, "transfer", "get_y", only},
		{chat.OpenAI, chatBody, `"tools":[{"type":"function","function":{"name":"transfer"},"custom":{"name":"get_y"}},{"type":"function","function":{"name":"get_x"}}]`, "transfer", "get_x", only},
		{chat.OpenAI, chatBody, `"tools":[{"type":"web_search","name":"get_price","function":{"name":"get_price"}}]`, "web_search", "model", only},
		{chat.OpenAI, chatBody, `"search_parameters":{"mode":"on"},"enable_search":true,"search_options":{}`, "search", "model", deny},
		{chat.OpenAI, chatBody, `"venice_parameters":{"enable_web_search":"on"}`, `"on"`, `"off"`, deny},
		{chat.Anthropic, anthropicBody, `"tools":[{"type":"code_execution_20250522","name":"get_price"},{"name":"get_x","input_schema":{"type":"object"}}]`, "code_execution", "get_x", only},
		{chat.Anthropic, anthropicBody, `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`, "web_search", "web_fetch", only},
		{chat.Gemini, geminiBody, `"tools":[{"functionDeclarations":[{"name":"get_x"}],"google_search":{"a":1}}]`, `{"a":1}`, "get_x", deny},
		{chat.Gemini, geminiBody, `"tools":[{"googleMaps":{},"googleSearch":{"a":1}}]`, `{"a":1}`, "googleMaps", only},
		{chat.Gemini, geminiBody, `"tools":[{"google_search":{"a":1}},{"functionDeclarations":[{"name":"get_x"}]}]`, "search", "get_x", deny},
		{chat.Gemini, geminiBody, `"tools":[{"google_maps":{"a":1}}]`, "search", "google_maps", only},
	} {
		x, err := offered(t, row.dialect, fmt.Sprintf(row.body, row.member), policy.Profile{}, row.rule)
		if err != nil {
			t.Errorf("%s: %v", row.member, err)
			continue
		}
		sent := string(x.Request.Doc.Bytes)
		if strings.Contains(sent, row.gone) || !strings.Contains(sent, row.stays) {
			t.Errorf("%s is sent as %s", row.member, sent)
		}
	}
	_, err := offered(t, chat.Responses, `{"model":"m","input":[{"type":"tool_search_output","call_id":"c","tools":[{"type":"function","name":"transfer"}]}]}`, policy.Profile{}, deny)
	if f, _ := errors.AsType[*fault.Fault](err); f == nil || f.Kind != fault.ToolRefused {
		t.Errorf("a tool that the input brings: %v", err)
	}
	x, err := offered(t, chat.OpenAI, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, policy.Profile{WebSearch: new(true)}, deny)
	if err != nil || x.Request.Profile.Default.WebSearch != nil || len(x.Tags) != 1 || x.Tags[0].Tool != "web_search" {
		t.Errorf("a search by the hint: %v, %+v", err, x.Tags)
	}
}

func TestARequestThatRequiresARefusedToolIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		dialect chat.Dialect
		more    string
		rule    firewall.Rule
		refused bool
	}{
		{chat.OpenAI, `,"tool_choice":{"type":"function","function":{"name":"transfer"}}`, firewall.Rule{Deny: rule.Names{"transfer"}}, true},
		{chat.OpenAI, `,"tool_choice":{"type":"function","function":{"name":"get_price"}}`, firewall.Rule{Deny: rule.Names{"transfer"}}, false},
		{chat.OpenAI, `,"tool_choice":"required"`, firewall.Rule{Deny: rule.Names{"transfer"}}, false},
		{chat.OpenAI, `,"tool_choice":"required"`, firewall.Rule{Deny: rule.Names{"*"}}, true},
		{chat.OpenAI, `,"tool_choice":"auto","parallel_tool_calls":false`, firewall.Rule{Deny: rule.Names{"*"}}, false},
		{chat.Anthropic, `,"tool_choice":{"type":"any"}`, firewall.Rule{Deny: rule.Names{"*"}}, true},
		{chat.Anthropic, `,"tool_choice":{"type":"tool","name":"transfer"}`, firewall.Rule{Allow: rule.Names{"get_price"}}, true},
		{chat.Gemini, `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["transfer"]}}`, firewall.Rule{Allow: rule.Names{"get_price"}}, true},
	} {
		row.rule.ID = "r"
		x, err := prepared(t, row.dialect, row.more, firewall.Layer{Rules: []firewall.Rule{row.rule}})
		f, _ := errors.AsType[*fault.Fault](err)
		if (err != nil) != row.refused || row.refused && f.Kind != fault.ToolRefused {
			t.Errorf("%s %s: %v", row.dialect, row.more, err)
		}
		if sent := string(x.Request.Doc.Bytes); err == nil && !strings.Contains(sent, `"tools"`) && (strings.Contains(sent, "tool_choice") || strings.Contains(sent, "parallel_tool_calls")) {
			t.Errorf("%s %s: %s", row.dialect, row.more, sent)
		}
	}
}

func TestRulesApplyToTheirCallers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rule firewall.Rule
		want bool
	}{
		{firewall.Rule{}, true},
		{firewall.Rule{Keys: rule.Names{"key_1"}}, true},
		{firewall.Rule{Keys: rule.Names{"trad*"}}, true},
		{firewall.Rule{Keys: rule.Names{"key_2", "other"}}, false},
		{firewall.Rule{Tiers: []string{"free", "pro"}}, true},
		{firewall.Rule{Tiers: []string{"golem"}}, false},
		{firewall.Rule{Subsystems: rule.Names{"ris*"}}, true},
		{firewall.Rule{Subsystems: rule.Names{"operator"}}, false},
		{firewall.Rule{Keys: rule.Names{"key_1"}, Subsystems: rule.Names{"operator"}}, false},
	} {
		row.rule.ID, row.rule.Deny = "r", rule.Names{"transfer"}
		x := exchange(t, chat.OpenAI, "", row.rule)
		if x.Watched() != row.want || strings.Contains(string(x.Request.Doc.Bytes), "transfer") == row.want || (len(x.Log) == 1) != row.want {
			t.Errorf("%+v: watched %v, log %+v", row.rule, x.Watched(), x.Log)
		}
	}
}

// With rules that cannot be used, all requests are refused; requests without rules are not processed.
func TestRulesThatCannotBeUsedRefuseAllRequests(t *testing.T) {
	t.Parallel()
	if _, err := prepared(t, chat.OpenAI, "", firewall.Layer{Broken: errors.New("broken")}); err == nil {
		t.Error("a request passes")
	}
	x, err := prepared(t, chat.OpenAI, "", firewall.Layer{})
	if err != nil || x.Watched() || x.MayChange || len(x.Log) != 0 {
		t.Errorf("%v, %+v", err, x.Log)
	}
}

// The answer of a second attempt is judged independently of the first.
func TestASecondAttemptIsJudgedIndependently(t *testing.T) {
	t.Parallel()
	x := exchange(t, chat.OpenAI, "", firewall.Rule{ID: "limit", Condition: condition(t, "args.usd <= 500")})
	half := stream(chat.OpenAI, 4, piece{"transfer", `{"usd":5000}`})
	events := formats.NewDecoder(chat.OpenAI, x.Request, 200, nil).Decode([]byte(half[:len(half)*2/3]), false)
	chat.MarkCalls(events)
	for i := range events {
		if _, err := x.Response(t.Context(), &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !x.Holding {
		t.Error("an open call is not held")
	}
	body := stream(chat.OpenAI, 4, piece{"transfer", `{"usd":5}`})
	if got, err := pass(t, x, chat.OpenAI, body); err != nil || got != body || len(x.Tags) != 1 {
		t.Errorf("%v, %+v: %s", err, x.Tags, got)
	}
}

// FuzzJudge: wherever an answer is split, and for any arguments, allowed calls are forwarded once, and no byte of others is.
func FuzzJudge(f *testing.F) {
	f.Add(uint8(0), uint8(0), uint16(10), uint16(300), uint8(3), "0xab", true, false)
	f.Add(uint8(1), uint8(2), uint16(400), uint16(900), uint8(1), `"\`, true, true)
	f.Add(uint8(2), uint8(1), uint16(700), uint16(900), uint8(9), "é", false, true)
	c := condition(f, "args.marker != 'FORBIDDEN'")
	f.Fuzz(func(t *testing.T, from, to uint8, a, b uint16, n uint8, note string, first, second bool) {
		fd, td := all[int(from)%len(all)], all[int(to)%len(all)]
		note = strings.ToValidUTF8(note, "")
		call := func(ok bool) piece {
			marker := "FORBIDDEN"
			if ok {
				marker = "fine"
			}
			return piece{"transfer", fmt.Sprintf(`{"usd":1,"marker":%q,"note":%q}`, marker, safe(note))}
		}
		calls := []piece{call(first), call(second)}
		body := stream(fd, int(n)%16+1, calls...)
		i, j := int(a)%len(body), int(b)%len(body)
		x := exchange(t, td, "", firewall.Rule{ID: "r", Condition: c})
		got, err := pass(t, x, fd, body, min(i, j), max(i, j))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got, "FORBIDDEN") {
			t.Fatalf("%s to %s: a forbidden call passes: %s", fd, td, got)
		}
		var want []piece
		for k, ok := range []bool{first, second} {
			if ok {
				want = append(want, calls[k])
			}
		}
		if s := read(t, td, got); len(s.calls) != len(want) || s.starts != 1 || (s.reason == chat.StopTool) != (len(want) > 0) {
			t.Fatalf("%s to %s: %+v, want %d calls\n%s", fd, td, s, len(want), got)
		}
		if first && second && fd == td && got != body {
			t.Fatalf("%s: changed\n%s\nwant\n%s", fd, got, body)
		}
	})
}

// safe is a text that Go and JSON quote in the same way.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '.'
		}
		return r
	}, s)
}
