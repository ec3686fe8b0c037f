package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// manyTools are the definitions of 120 tools, 110 of which nobody needs, each as form writes a name and a schema.
func manyTools(form string) string {
	var out []string
	for i := range 110 {
		out = append(out, fmt.Sprintf(form, fmt.Sprintf("unrelated_tool_%d", i), `{"type":"object"}`))
	}
	for i := range 10 {
		out = append(out, fmt.Sprintf(form, fmt.Sprintf("book_flight_%d", i), `{"type":"object","properties":{"to":{"type":"string"}},"required":["to"],"additionalProperties":false}`))
	}
	return strings.Join(out, ",")
}

// metaForms are requests with 120 tools. Behind the user's message stand the turns %[3]s; %[1]q is the model, %[2]v whether it streams.
var metaForms = map[string]struct{ path, body, turns string }{
	"openai": {
		"/v1/chat/completions",
		`{"model":%[1]q,"stream":%[2]v,"messages":[{"role":"user","content":"Fly me to Oslo"}%[3]s],"tools":[` +
			manyTools(`{"type":"function","function":{"name":%q,"description":"Does it.","parameters":%s}}`) + `]}`,
		`,{"role":"assistant","content":"Found.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"book_flight_7","arguments":"{\"to\":\"Oslo\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"booked"}`,
	},
	"anthropic": {
		"/v1/messages",
		`{"model":%[1]q,"stream":%[2]v,"max_tokens":500,"messages":[{"role":"user","content":"Fly me to Oslo"}%[3]s],"tools":[` +
			manyTools(`{"name":%q,"description":"Does it.","input_schema":%s}`) + `]}`,
		`,{"role":"assistant","content":[{"type":"text","text":"Found."},{"type":"tool_use","id":"call_1","name":"book_flight_7","input":{"to":"Oslo"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"booked"}]}`,
	},
	"responses": {
		"/v1/responses",
		`{"model":%[1]q,"stream":%[2]v,"store":false,"input":[{"role":"user","content":"Fly me to Oslo"}%[3]s],"tools":[` +
			manyTools(`{"type":"function","name":%q,"description":"Does it.","parameters":%s}`) + `]}`,
		`,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Found."}]},{"type":"function_call","call_id":"call_1","name":"book_flight_7","arguments":"{\"to\":\"Oslo\"}"},{"type":"function_call_output","call_id":"call_1","output":"booked"}`,
	},
	"gemini": {
		"",
		`{"contents":[{"role":"user","parts":[{"text":"Fly me to Oslo"}]}%[3]s],"tools":[{"functionDeclarations":[` +
			manyTools(`{"name":%q,"description":"Does it.","parametersJsonSchema":%s}`) + `]}]}`,
		`,{"role":"model","parts":[{"text":"Found."},{"functionCall":{"name":"book_flight_7","args":{"to":"Oslo"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"book_flight_7","response":{"output":"booked"}}}]}`,
	},
}

// metaCall is a request of a form to a model.
func metaCall(form, model string, stream bool, turns string) gateway.Call {
	f := metaForms[form]
	c := gateway.Call{Path: f.path, Body: fmt.Sprintf(f.body, model, stream, turns)}
	switch form {
	case "openai":
		c.Body = strings.Replace(c.Body, `"stream":true,`, `"stream":true,"stream_options":{"include_usage":true},`, 1)
	case "gemini":
		c.Body = fmt.Sprintf(strings.ReplaceAll(f.body, "%[3]s", "%[1]s"), turns)
		c.Path = geminiPath(model, stream)
	case "anthropic":
		c.Header = []string{"anthropic-version: 2023-06-01"}
	}
	return c
}

// metaLab is a gateway with two providers of different formats, whose models m and n cost 1 and 2 dollars per million tokens.
func metaLab(t *testing.T, config string) (g *gateway.Gateway, own, other *fake.Server) {
	t.Helper()
	own = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own"})
	other = fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "other"})
	price := "{input: 1, output: 2}"
	return gateway.Run(t, gateway.Options{Config: quick + config, Providers: []gateway.Provider{
		{ID: "own", Fake: own, Models: []gateway.Model{{ID: "m", Price: price}, {ID: "both", Price: price}}},
		{ID: "other", Fake: other, Format: "anthropic", Models: []gateway.Model{{ID: "n", Price: price}, {ID: "both", Price: price}}},
	}}), own, other
}

func calling(text, tool, args string) fake.Behaviour {
	return fake.Behaviour{
		Text: text, ToolCalls: []fake.ToolCall{{Name: tool, Args: args, Pieces: 4}}, Usage: &fake.Usage{Input: 1000, Output: 100},
	}
}

const (
	searches = `{"query":"book a flight"}`
	executes = `{"name":"book_flight_7","arguments":{"to":"Oslo"}}`
)

// whole is a round of a search and the call of what was found.
func twoRounds() []fake.Behaviour {
	return []fake.Behaviour{calling("Let me look.", "search_tools", searches), calling("Found.", "execute_tool", executes)}
}

// TestC09ToolsAreFoundInsideTheGateway: in every format, streamed and not, at a provider of the same format and of another one. The client sees one answer with
// a call of its own tool; the next request shows the model the call as it made it, and the same three tools.
func TestC09ToolsAreFoundInsideTheGateway(t *testing.T) {
	t.Parallel()
	g, own, other := metaLab(t, "")
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	for form := range metaForms {
		for model, at := range map[string]*fake.Server{"m": own, "n": other} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s at %s, stream=%v", form, model, stream), func(t *testing.T) {
					at.Forget()
					at.Queue(twoRounds()...)
					before := balanceOf(t, g, key)
					c := metaCall(form, model, stream, "")
					c.Key = key
					got := g.Do(t, c)
					mustShowOneAnswer(t, form, stream, got)
					sent := at.Generations()
					if len(sent) != 2 {
						t.Fatalf("%d calls", len(sent))
					}
					for _, r := range sent {
						if names := fmt.Sprint(toolsIn(t, string(r.Body))); names != "[search_tools get_tool_schema execute_tool]" {
							t.Errorf("the provider gets %s", names)
						}
					}
					if second := string(sent[1].Body); !strings.Contains(second, "book_flight_7") || !strings.Contains(second, "Let me look.") || strings.Count(second, "unrelated_tool_") > 5 {
						t.Errorf("the second call is %s", second)
					}
					if took := before - balanceOf(t, g, key); took != 2_880 { // with 20 % on it
						t.Errorf("%d were taken from the balance", took)
					}
					r := verifiedBy(t, g, key, got)
					if r.Attempts != 2 || r.InputTokens != 2000 {
						t.Errorf("the record says %+v", r)
					}
					at.Forget()
					c = metaCall(form, model, stream, metaForms[form].turns)
					c.Key = key
					if got := g.Do(t, c); got.Status != http.StatusOK {
						t.Fatalf("the next turn: %d %s", got.Status, got.Body)
					}
					next := string(at.Generations()[0].Body)
					if names := fmt.Sprint(toolsIn(t, next)); names != "[search_tools get_tool_schema execute_tool]" || !strings.Contains(next, "execute_tool") || !strings.Contains(strings.ReplaceAll(next, `\`, ""), `"name":"book_flight_7","arguments":{"to":"Oslo"}`) {
						t.Errorf("the next turn is %s", next)
					}
				})
			}
		}
	}
	g.AssertSound(t)
}

// searchAnswered is the note of a search that the gateway answered. Whether it ranked tools by meaning depends on the local model's having been quick enough.
var searchAnswered = regexp.MustCompile(`meta;(meaning=1;)?answered=1`)

// mustShowOneAnswer checks what the client gets of two rounds.
func mustShowOneAnswer(t *testing.T, form string, stream bool, got gateway.Answer) {
	t.Helper()
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%d %v: %s", got.Status, got.Err, got.Body)
	}
	if strings.Contains(got.Body, "search_tools") || strings.Contains(got.Body, "execute_tool") {
		t.Errorf("the client sees the gateway's tools: %s", got.Body)
	}
	if !stream && (got.Header.Get("X-Bardo-Attempts") != "2" || !searchAnswered.MatchString(got.Header.Get("X-Bardo-Pipeline"))) {
		t.Errorf("%v", got.Header)
	}
	switch form {
	case "openai", "anthropic":
		a := ask{dialect: fake.Dialect(form), stream: stream}
		said := turnOf(t, a, got)
		if said.text != "Let me look.\n\nFound." || said.names() != `book_flight_7{"to":"Oslo"}` {
			t.Errorf("the client reads %+v in %s", said, got.Body)
		}
		if want := map[string]string{"openai": "tool_calls", "anthropic": "tool_use"}[form]; said.reason != want {
			t.Errorf("it stopped for %q", said.reason)
		}
	case "gemini":
		if h := readGemini(t, got, stream); h.text != "Let me look.\n\nFound." || !strings.Contains(got.Body, `"name":"book_flight_7","args":{"to":"Oslo"}`) {
			t.Errorf("the client reads %+v in %s", h, got.Body)
		}
	default:
		if !strings.Contains(got.Body, `"name":"book_flight_7","arguments":"{\"to\":\"Oslo\"}"`) || !strings.Contains(got.Body, "Let me look.") {
			t.Errorf("the client reads %s", got.Body)
		}
	}
	used := map[string][]string{
		"openai": {`"prompt_tokens":2000`, `"completion_tokens":200`}, "anthropic": {`"input_tokens":2000`, `"output_tokens":200`},
		"responses": {`"input_tokens":2000`, `"output_tokens":200`}, "gemini": {`"promptTokenCount":2000`, `"candidatesTokenCount":200`},
	}
	for _, n := range used[form] {
		if !strings.Contains(got.Body, n) {
			t.Errorf("the usage has no %s: %s", n, got.Body)
		}
	}
}

// TestD36WrongArgumentsGoBackToTheModel, which corrects itself; a call that never becomes right ends with the fourth round.
func TestD36WrongArgumentsGoBackToTheModel(t *testing.T) {
	t.Parallel()
	g, own, _ := metaLab(t, "")
	for _, stream := range []bool{false, true} {
		own.Forget()
		own.Queue(calling("", "execute_tool", `{"name":"book_flight_7","arguments":{"destination":"Oslo"}}`), calling("", "execute_tool", `{"name":"book_flight_99","arguments":{}}`),
			calling("", "get_tool_schema", `{"name":"book_flight_7"}`), calling("", "execute_tool", executes))
		got := g.Do(t, metaCall("openai", "m", stream, ""))
		if said := turnOf(t, ask{dialect: fake.OpenAI, stream: stream}, got); said.names() != `book_flight_7{"to":"Oslo"}` {
			t.Errorf("stream=%v: the client reads %+v", stream, said)
		}
		sent := own.Generations()
		if len(sent) != 4 || !strings.Contains(string(sent[1].Body), "to: is missing") || !strings.Contains(string(sent[2].Body), "There is no tool") || !strings.Contains(string(sent[3].Body), `additionalProperties`) {
			t.Fatalf("stream=%v: %d calls, the last with %s", stream, len(sent), sent[len(sent)-1].Body)
		}
		own.Forget()
		for range 6 {
			own.Queue(calling("", "execute_tool", `{"name":"book_flight_7","arguments":{}}`))
		}
		got = g.Do(t, metaCall("openai", "m", stream, ""))
		if said := turnOf(t, ask{dialect: fake.OpenAI, stream: stream}, got); len(said.calls) != 0 || said.reason != "stop" {
			t.Errorf("stream=%v: the client reads %+v", stream, said)
		}
		if r := recordOf(t, g, got); fmt.Sprint(r.Degraded) != "[tool_rounds]" || !stream && got.Header.Get("X-Bardo-Degraded") != "tool_rounds" {
			t.Errorf("stream=%v: degraded %v", stream, r.Degraded)
		}
		if n := len(own.Generations()); n != 5 {
			t.Errorf("stream=%v: %d calls for four rounds", stream, n)
		}
		own.Reset()
	}
}

// TestParallelCallsOfBothKinds: the client gets its own calls at once, and none of the gateway's tools.
func TestParallelCallsOfBothKinds(t *testing.T) {
	t.Parallel()
	g, own, other := metaLab(t, "")
	for model, at := range map[string]*fake.Server{"m": own, "n": other} {
		for _, dialect := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			for _, stream := range []bool{false, true} {
				at.Forget()
				at.Queue(fake.Behaviour{Text: "Both.", ToolCalls: []fake.ToolCall{
					{Name: "search_tools", Args: searches, Pieces: 3}, {Name: "execute_tool", Args: executes, Pieces: 5}, {Name: "book_flight_2", Args: `{"to":"Bergen"}`, Pieces: 2},
				}})
				got := g.Do(t, metaCall(string(dialect), model, stream, ""))
				said := turnOf(t, ask{dialect: dialect, stream: stream}, got)
				if said.names() != `book_flight_7{"to":"Oslo"} book_flight_2{"to":"Bergen"}` && said.names() != `book_flight_2{"to":"Bergen"} book_flight_7{"to":"Oslo"}` || said.text != "Both." || len(at.Generations()) != 1 {
					t.Errorf("%s at %s, stream=%v: %+v after %d calls", dialect, model, stream, said, len(at.Generations()))
				}
			}
		}
	}
}

// TestK14SignedThinkingSurvivesARound: the provider, which refuses a history whose signed thinking is missing or changed, gets it back in the second round and,
// from the client, in the next turn.
func TestK14SignedThinkingSurvivesARound(t *testing.T) {
	t.Parallel()
	g, _, other := metaLab(t, "")
	for _, dialect := range []fake.Dialect{fake.Anthropic, fake.OpenAI} {
		for _, stream := range []bool{false, true} {
			other.Forget()
			first := calling("", "search_tools", searches)
			first.Thoughts = []fake.Thought{{Text: "I need a tool."}}
			other.Queue(first, calling("Found.", "execute_tool", executes))
			c := metaCall(string(dialect), "n", stream, "")
			more := `"thinking":{"type":"enabled","budget_tokens":1024},"max_tokens":4000,`
			if dialect == fake.OpenAI {
				more = `"reasoning_effort":"low",`
			}
			c.Body = strings.Replace(strings.Replace(c.Body, `"max_tokens":500,`, "", 1), `"stream":`, more+`"stream":`, 1)
			got := g.Do(t, c)
			if got.Status != http.StatusOK || !strings.Contains(got.Body, "book_flight_7") {
				t.Fatalf("%s, stream=%v: %d %s", dialect, stream, got.Status, got.Body)
			}
			sent := other.Generations()
			var second struct {
				Messages []struct {
					Role    string
					Content json.RawMessage
				}
			}
			if len(sent) != 2 || json.Unmarshal(sent[1].Body, &second) != nil || len(second.Messages) != 3 {
				t.Fatalf("%s, stream=%v: %d calls", dialect, stream, len(sent))
			}
			want := fmt.Sprintf(`"signature":%q`, other.Sign("I need a tool."))
			if content := string(second.Messages[1].Content); !strings.Contains(content, want) || strings.Index(content, "thinking") > strings.Index(content, "tool_use") {
				t.Errorf("%s, stream=%v: the second call has %s", dialect, stream, content)
			}
			if dialect == fake.Anthropic && !strings.Contains(got.Body, other.Sign("I need a tool.")) {
				t.Errorf("stream=%v: the client cannot send the thinking back: %s", stream, got.Body)
			}
		}
	}
}

// TestALaterRoundFailsOver to another candidate, with the whole conversation; it cannot once the client has a part of this round's answer.
func TestALaterRoundFailsOver(t *testing.T) {
	t.Parallel()
	g, own, other := metaLab(t, "")
	for _, stream := range []bool{false, true} {
		own.Forget()
		other.Forget()
		own.Queue(calling("Let me look.", "search_tools", searches), fake.Behaviour{Status: 503})
		other.Queue(calling("Found.", "execute_tool", executes))
		got := g.Do(t, metaCall("openai", "both", stream, ""))
		if said := turnOf(t, ask{dialect: fake.OpenAI, stream: stream}, got); said.text != "Let me look.\n\nFound." || said.names() != `book_flight_7{"to":"Oslo"}` {
			t.Errorf("stream=%v: the client reads %+v", stream, said)
		}
		sent := other.Generations()
		if len(sent) != 1 || !strings.Contains(string(sent[0].Body), "Let me look.") || !strings.Contains(string(sent[0].Body), `"tool_result"`) {
			t.Fatalf("stream=%v: the other candidate got %d calls", stream, len(sent))
		}
		if r := recordOf(t, g, got); r.Attempts != 3 || r.Provider != "other" || r.Status != "ok" {
			t.Errorf("stream=%v: the record says %+v", stream, r)
		}
	}
	own.Forget()
	own.Queue(calling("Let me look.", "search_tools", searches), fake.Behaviour{Text: "Found a thing or two.", Break: fake.Break{Kind: fake.Reset, At: fake.AfterTokens, Tokens: 2}})
	got := g.Do(t, metaCall("openai", "own/both", true, ""))
	if !strings.Contains(got.Body, "Found") || !strings.Contains(got.Body, `"error"`) {
		t.Errorf("a round that is cut: %s", got.Body)
	}
	if r := recordOf(t, g, got); r.Status != "cut" || r.InputTokens <= 1000 {
		t.Errorf("the record says %+v", r)
	}
}

// TestRoundsArePaidForInAdvance: a balance that pays for one call but not for five is refused, and nothing is sent.
func TestRoundsArePaidForInAdvance(t *testing.T) {
	t.Parallel()
	g, own, _ := metaLab(t, "")
	poor := g.CreateKey(t, "--name", "poor", "--balance-usd", "0.02").Key
	c := metaCall("openai", "m", false, "")
	c.Key = poor
	if got := g.Do(t, c); got.Status != http.StatusPaymentRequired || len(own.Generations()) != 0 {
		t.Errorf("%d after %d calls: %s", got.Status, len(own.Generations()), got.Body)
	}
	off, at, _ := metaLab(t, "pipeline: {tools: {meta: off}}\n")
	c.Key = off.CreateKey(t, "--name", "poor", "--balance-usd", "0.02").Key
	if got := off.Do(t, c); got.Status != http.StatusOK || len(toolsIn(t, string(at.Generations()[0].Body))) != 40 {
		t.Errorf("without rounds: %d %s", got.Status, got.Body)
	}
}

// recallForms are long conversations in which a file was read twice, with another result each time, and four more answers after that.
func recallBody(dialect fake.Dialect, model string, stream bool) string {
	var turns []string
	add := func(i int, tool, args, result string) {
		if dialect == fake.OpenAI {
			turns = append(turns, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":%q,"arguments":%q}}]},{"role":"tool","tool_call_id":"c%d","content":%q}`, i, tool, args, i, result))
			return
		}
		turns = append(turns, fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"c%d","name":%q,"input":%s}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%d","content":%q}]}`, i, tool, args, i, result))
	}
	add(0, "read", `{"path":"a"}`, "The old secret is 4711. "+strings.Repeat("old ", 4000))
	add(1, "read", `{"path":"a"}`, strings.Repeat("new ", 2000))
	for i := range 6 {
		add(2+i, "note", fmt.Sprintf(`{"n":%d}`, i), "ok")
	}
	tools := `{"type":"function","function":{"name":"read","parameters":{"type":"object"}}},{"type":"function","function":{"name":"note","parameters":{"type":"object"}}}`
	if dialect == fake.Anthropic {
		tools = `{"name":"read","input_schema":{"type":"object"}},{"name":"note","input_schema":{"type":"object"}}`
	}
	return fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":500,"messages":[{"role":"user","content":"Work."},%s],"tools":[%s]}`, model, stream, strings.Join(turns, ","), tools)
}

// TestB15TheModelFetchesBackWhatWasLeftOut: inside the gateway; the client sees the answer alone, and it is counted.
func TestB15TheModelFetchesBackWhatWasLeftOut(t *testing.T) {
	t.Parallel()
	g, own, other := metaLab(t, "")
	recalled := 0
	for model, at := range map[string]*fake.Server{"m": own, "n": other} {
		for _, dialect := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			for _, stream := range []bool{false, true} {
				at.Forget()
				at.Queue(calling("", "bardo_recall", `{"id":"r1"}`), fake.Behaviour{Text: "It was 4711."})
				a := ask{dialect: dialect, stream: stream}
				c := a.call()
				c.Body = recallBody(dialect, model, stream)
				got := g.Do(t, c)
				said := turnOf(t, a, got)
				recalled++
				sent := at.Generations()
				if said.text != "It was 4711." || len(said.calls) != 0 || strings.Contains(got.Body, "bardo_recall") || len(sent) != 2 {
					t.Fatalf("%s at %s, stream=%v: %+v after %d calls", dialect, model, stream, said, len(sent))
				}
				if first := string(sent[0].Body); strings.Contains(first, "4711") || !strings.Contains(first, "bardo_recall shows it: r1") {
					t.Errorf("%s at %s, stream=%v: the first call is %.2000s", dialect, model, stream, first)
				}
				_, began, _ := strings.Cut(string(sent[0].Body), `"messages"`)
				if second := string(sent[1].Body); strings.Count(second, "4711") != 1 || !strings.Contains(second, `"messages"`+began[:1000]) {
					t.Errorf("%s at %s, stream=%v: the second call is %.2000s", dialect, model, stream, second)
				}
			}
		}
	}
	if n := g.Metrics(t)[`bardo_layer_calls_total{layer="l5"}`]; n != float64(recalled) {
		t.Errorf("%v recalls are counted, there were %d", n, recalled)
	}
}
