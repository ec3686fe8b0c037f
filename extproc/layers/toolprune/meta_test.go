package toolprune_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/toolprune"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

var three = []string{"search_tools", "get_tool_schema", "execute_tool"}

// catalog are n tools, the last of which books a flight.
func catalog(n int) (out []map[string]any) {
	for i := range n - 1 {
		out = append(out, tool(fmt.Sprintf("unrelated_%d", i), "Does nothing of use, as everybody knows who has ever tried it."))
	}
	flight := tool("book_flight", "Books a seat on an airplane.")
	flight["function"].(map[string]any)["parameters"] = json.RawMessage(`{"type":"object","properties":{"to":{"type":"string","pattern":"^[A-Z]"}},"required":["to"]}`) //nolint:forcetypeassert // made above
	return append(out, flight)
}

func prunedRequest(t *testing.T, l toolprune.Layer, messages []any, tools []map[string]any) (*pipeline.Exchange, []string) {
	t.Helper()
	x := request(t, policy.Hints{}, map[string]any{"messages": messages, "tools": tools})
	return x, prune(t, l, x)
}

func TestD36WhoGetsMetaTools(t *testing.T) {
	for _, row := range []struct {
		about   string
		tools   int
		meta    toolprune.Mode
		mode    toolprune.Mode
		noRound bool
		want    bool
	}{
		{"a hundred tools", 100, "", "", false, false},
		{"more", 101, "", "", false, true},
		{"more, in mode auto", 101, toolprune.Auto, "", false, true},
		{"switched off", 101, toolprune.Off, "", false, false},
		{"pruning is off", 101, toolprune.On, toolprune.Off, false, false},
		{"switched on, for a request that is pruned", 60, toolprune.On, "", false, true},
		{"switched on, for a request that is not pruned", 30, toolprune.On, "", false, false},
		{"calls cannot be answered here", 101, "", "", true, false},
	} {
		x := request(t, policy.Hints{}, map[string]any{"messages": []any{user("Fly me to Oslo")}, "tools": catalog(row.tools)})
		x.NoRounds = row.noRound
		got := prune(t, toolprune.Layer{Meta: row.meta, Mode: row.mode}, x)
		if slices.Equal(got, three) != row.want || (x.Rounds() == pipeline.MaxRounds) != row.want {
			t.Errorf("%s: %d rounds, %v", row.about, x.Rounds(), got)
		}
	}
}

// TestC09DefinitionsFallBy975Percent on each request of the trace with 150 tools, in the course of its conversations.
// TestD36MetaToolsMustSaveSomething: if nearly all tools are kept, three more would make the request longer.
func TestD36MetaToolsMustSaveSomething(t *testing.T) {
	tools := catalog(60)
	for i := range tools[2:] {
		tools[2+i]["cache_control"] = map[string]any{"type": "ephemeral"}
	}
	x, got := prunedRequest(t, toolprune.Layer{Meta: toolprune.On}, []any{user("Fly me to Oslo")}, tools)
	if len(got) != len(tools) || len(x.Log) > 0 && x.Log[0].Saved != 0 {
		t.Errorf("%d of %d tools are sent: %+v", len(got), len(tools), x.Log)
	}
}

func TestC09DefinitionsFallBy975Percent(t *testing.T) {
	l := toolprune.Layer{Memory: toolprune.NewChoices()}
	requests := 0
	for body := range traced(t, "../../../e2e/traces/tools-150.jsonl") {
		r, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", body)
		if err != nil {
			t.Fatal(err)
		}
		x := &pipeline.Exchange{Request: r, Principal: policy.Principal{Account: "a"}}
		before := len(r.Doc.Get("tools").Raw)
		if err := pipeline.New(l).Request(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		after := len(x.Request.Doc.Get("tools").Raw)
		if fell := 1 - float64(after)/float64(before); fell < 0.975 {
			t.Errorf("request %d: from %d to %d bytes, by %.2f %%", requests, before, after, 100*fell)
		}
		requests++
	}
	if requests != 48 {
		t.Errorf("%d requests", requests)
	}
}

// traced yields the bodies of a trace's requests.
func traced(t *testing.T, file string) func(func([]byte) bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Define, Use, Conversation string
		Body                      map[string]any
		Messages                  []any
	}
	return func(yield func([]byte) bool) {
		defined, said := map[string]map[string]any{}, map[string][]any{}
		s := bufio.NewScanner(bytes.NewReader(text))
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			var l line
			if err := json.Unmarshal(s.Bytes(), &l); err != nil {
				t.Fatal(err)
			}
			if l.Define != "" {
				defined[l.Define] = l.Body
				continue
			}
			said[l.Conversation] = append(said[l.Conversation], l.Messages...)
			body := map[string]any{"messages": said[l.Conversation]}
			maps.Copy(body, defined[l.Use])
			raw, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(raw) {
				return
			}
		}
	}
}

// TestNamesOfMetaToolsAreFree: names of a client's own tools are not used.
func TestNamesOfMetaToolsAreFree(t *testing.T) {
	tools := append(catalog(120), tool("search_tools", "The client's."), tool("execute_tool", "The client's."), tool("bardo_execute_tool", "The client's."))
	_, got := prunedRequest(t, toolprune.Layer{}, []any{user("hi")}, tools)
	if want := []string{"bardo_search_tools", "get_tool_schema", "bardo_execute_tool2"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func called(id, name, args string) []any {
	return []any{
		map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": args}}}},
		map[string]any{"role": "tool", "tool_call_id": id, "content": "done"},
	}
}

// TestD36AConversationKeepsItsMetaTools: a call by execute_tool is shown as one, and adds no definition. Tools with calls before the layer's first request of the
// conversation are kept, and so are tools that the request forces or marks, and a provider's own.
func TestD36AConversationKeepsItsMetaTools(t *testing.T) {
	l := toolprune.Layer{Memory: toolprune.NewChoices()}
	first := []any{user("Fly me to Oslo")}
	_, got := prunedRequest(t, l, first, catalog(120))
	second := append(slices.Clone(first), called("c1", "book_flight", `{"to":"Oslo"}`)...)
	x, later := prunedRequest(t, l, second, catalog(120))
	if !slices.Equal(got, three) || !slices.Equal(later, three) {
		t.Errorf("%v, then %v", got, later)
	}
	tr, err := transcript.Of(x.Request)
	if err != nil {
		t.Fatal(err)
	}
	if c := tr.Turns[1].Calls[0]; c.Name != "execute_tool" || !strings.Contains(string(x.Request.Doc.Bytes), `"{\"name\":\"book_flight\",\"arguments\":{\"to\":\"Oslo\"}}"`) {
		t.Errorf("the call is %+v in %s", c, x.Request.Doc.Get("messages").Raw)
	}
	tools := catalog(120)
	tools[3]["cache_control"] = map[string]any{"type": "ephemeral"}
	tools = append(tools, map[string]any{"type": "web_search"})
	_, got = prunedRequest(t, toolprune.Layer{}, second, tools)
	if want := append(slices.Clone(three), "unrelated_3", "book_flight", ""); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestD36AForcedToolKeepsItsDefinition, in addition to the three.
func TestD36AForcedToolKeepsItsDefinition(t *testing.T) {
	x := request(t, policy.Hints{}, map[string]any{
		"messages": []any{user("hi")}, "tools": catalog(120), "tool_choice": map[string]any{"type": "function", "function": map[string]any{"name": "book_flight"}},
	})
	if got := prune(t, toolprune.Layer{}, x); !slices.Equal(got, append(slices.Clone(three), "book_flight")) {
		t.Errorf("%v", got)
	}
}

// TestCallsOfMetaTools are answered from the request's own definitions, or become calls of the client's tools.
func TestCallsOfMetaTools(t *testing.T) {
	x, _ := prunedRequest(t, toolprune.Layer{}, []any{user("Fly me to Oslo")}, catalog(120))
	for _, row := range []struct {
		tool, args, own string
		wrong           bool
		says            []string
	}{
		{tool: "search_tools", args: `{"query":"book a flight"}`, says: []string{`{"name":"book_flight","description":"Books a seat on an airplane.","parameters":{"type":"object"`}},
		{tool: "search_tools", args: `{"query":"zzz"}`, says: []string{"No tool fits", "unrelated_17", "book_flight"}},
		{tool: "search_tools", args: `{}`, says: []string{"No tool fits"}},
		{tool: "search_tools", args: `nonsense`, wrong: true, says: []string{"not a JSON object"}},
		{tool: "get_tool_schema", args: `{"name":"book_flight"}`, says: []string{`"pattern":"^[A-Z]"`}},
		{tool: "get_tool_schema", args: `{"name":"book_a_flight"}`, wrong: true, says: []string{"no tool", "book_flight"}},
		{tool: "execute_tool", args: `{"name":"book_flight","arguments":{"to":"Oslo"}}`, own: `{"to":"Oslo"}`},
		{tool: "execute_tool", args: `{"name":"book_flight","arguments":"{\"to\":\"Oslo\"}"}`, own: `{"to":"Oslo"}`},
		{tool: "execute_tool", args: `{"name":"unrelated_4"}`, own: `{}`},
		{tool: "execute_tool", args: `{"name":"book_flight","arguments":{"to":"<EMAIL_0123ABCD>"}}`, own: `{"to":"<EMAIL_0123ABCD>"}`},
		{tool: "execute_tool", args: `{"name":"book_flight","arguments":{"to":"oslo"}}`, wrong: true, says: []string{"not called", "to:", `"pattern"`}},
		{tool: "execute_tool", args: `{"name":"book_flight","arguments":[1]}`, wrong: true, says: []string{"must be a JSON object"}},
		{tool: "execute_tool", args: `{"name":"book_train","arguments":{}}`, wrong: true, says: []string{`no tool "book_train"`}},
		{tool: "execute_tool", args: `{"name":"search_tools","arguments":{}}`, wrong: true, says: []string{"no tool"}},
		{tool: "execute_tool", args: `{"na`, wrong: true, says: []string{"not a JSON object"}},
	} {
		c := chat.ToolCall{ID: "c", Name: row.tool, Args: row.args}
		own, ok := x.TranslateCall(&c)
		if ok != (row.own != "") || ok && (own.ID != "c" || own.Args != row.own || own.Name == row.tool) {
			t.Errorf("%s%s becomes %+v", row.tool, row.args, own)
		}
		if ok {
			continue
		}
		res := x.RoundResults(t.Context(), []chat.ToolCall{c})[0]
		for _, want := range row.says {
			if !strings.Contains(res.Text, want) {
				t.Errorf("%s%s: %s, without %s", row.tool, row.args, res.Text, want)
			}
		}
		if res.IsError != row.wrong || len(res.Text) > pipeline.MaxRoundResults {
			t.Errorf("%s%s: %+v", row.tool, row.args, res)
		}
	}
	if note := x.Log[0].Note; note != "meta;answered=11" {
		t.Errorf("the log says %q", note)
	}
}

// FuzzCallsOfMetaTools: any call is answered within the size limit, or becomes a call with an object.
func FuzzCallsOfMetaTools(f *testing.F) {
	f.Add(uint8(0), `{"query":"flight"}`)
	f.Add(uint8(2), `{"name":"book_flight","arguments":{"to":"Oslo"}}`)
	f.Add(uint8(2), `{"name":"book_flight","arguments":"{"}`)
	raw, _ := json.Marshal(map[string]any{"model": "m", "messages": []any{user("hi")}, "tools": catalog(101)})
	f.Fuzz(func(t *testing.T, which uint8, args string) {
		r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", raw)
		if err != nil {
			t.Fatal(err)
		}
		x := &pipeline.Exchange{Request: r}
		if err := pipeline.New(toolprune.Layer{Memory: toolprune.NewChoices()}).Request(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		c := chat.ToolCall{Name: three[int(which)%3], Args: args}
		if own, ok := x.TranslateCall(&c); ok {
			var object map[string]any
			if json.Unmarshal([]byte(own.Args), &object) != nil || !json.Valid([]byte(own.Args)) {
				t.Errorf("%q becomes %+v", args, own)
			}
			return
		}
		if res := x.RoundResults(t.Context(), []chat.ToolCall{c})[0]; res.Text == "" || len(res.Text) > pipeline.MaxRoundResults {
			t.Errorf("%q is answered by %d bytes", args, len(res.Text))
		}
	})
}

// mixedTools are 60 tools of an agent, of which each kind of tick needs two, about 140 tokens each.
func mixedTools() (out []map[string]any) {
	for _, name := range []string{
		"get_token_price", "get_ohlc", "add_liquidity", "remove_liquidity", "vault_deposit", "rebalance_vault", "get_health_factor", "get_exposure", "portfolio_summary", "get_pnl",
		"quote_swap", "swap_tokens", "update_strategy", "run_backtest",
	} {
		out = append(out, tool(name, "Does what its name says. "+strings.Repeat("It is useful. ", 25)))
	}
	for i := range 46 {
		out = append(out, tool(fmt.Sprintf("unrelated_%d", i), strings.Repeat("It is useless. ", 25)))
	}
	return out
}

// tickOf is a request of an agent at a model whose provider reads prompts from its cache at a tenth of the price.
func tickOf(t *testing.T, kind string, change func(*pipeline.Exchange)) *pipeline.Exchange {
	t.Helper()
	persona := map[string]any{"role": "system", "content": strings.Repeat("You are an agent. ", 300)}
	x := request(t, policy.Hints{GolemID: "g", TickType: kind}, map[string]any{"messages": []any{persona, user("Tick.")}, "tools": mixedTools()})
	x.Found = []policy.Resolution{{Provider: "p", Model: "m", MinCache: 1024, Prices: policy.Prices{Known: true, Input: 3_000_000, CachedInput: 300_000}}}
	if change != nil {
		change(x)
	}
	return x
}

// TestC08MixedTicksShareTheirTools: once an agent's ticks are of several kinds, all have the same tools: at most twelve and 1,500 tokens, the most needed ones of each
// kind first, and the three by which the others are found.
func TestC08MixedTicksShareTheirTools(t *testing.T) {
	l := toolprune.Layer{Memory: toolprune.NewChoices()}
	if got := prune(t, l, tickOf(t, "risk_check", nil)); slices.Contains(got, "search_tools") || !slices.Contains(got, "get_exposure") {
		t.Errorf("the first tick has %v", got)
	}
	if got := prune(t, l, tickOf(t, "risk_check", nil)); slices.Contains(got, "search_tools") {
		t.Errorf("ticks of one kind have %v", got)
	}
	first := tickOf(t, "trade_execution", nil)
	shared := prune(t, l, first)
	if !slices.Equal(shared[:3], three) || len(shared) < 7 || len(shared) > 12 || slices.ContainsFunc(shared, func(s string) bool { return strings.HasPrefix(s, "unrelated") }) {
		t.Errorf("the shared tools are %v", shared)
	}
	if raw := first.Request.Doc.Get("tools").Raw; 2*len(raw)/7 > 1500+20 {
		t.Errorf("%d bytes of definitions", len(raw))
	}
	for kind := range toolprune.DefaultTasks {
		x := tickOf(t, kind, nil)
		if got := prune(t, l, x); !slices.Equal(got, shared) || string(x.Request.Doc.Get("tools").Raw) != string(first.Request.Doc.Get("tools").Raw) {
			t.Errorf("%s has %v", kind, got)
		}
		own, ok := x.TranslateCall(&chat.ToolCall{Name: "execute_tool", Args: `{"name":"run_backtest","arguments":{}}`})
		if !ok || own.Name != "run_backtest" {
			t.Errorf("%s cannot call what it is not shown: %+v", kind, own)
		}
	}
}

// TestC08TicksHaveToolsOfTheirOwn if sharing would save nothing, or calls cannot be answered inside the gateway.
func TestC08TicksHaveToolsOfTheirOwn(t *testing.T) {
	for about, change := range map[string]func(*pipeline.Exchange){
		"the provider caches nothing":          func(x *pipeline.Exchange) { x.Found[0].MinCache = 0 },
		"reading from the cache is not cheap":  func(x *pipeline.Exchange) { x.Found[0].Prices.CachedInput = 1_500_000 },
		"the prompt is too short for a cache":  func(x *pipeline.Exchange) { x.Found[0].MinCache = 4096 },
		"calls cannot be answered":             func(x *pipeline.Exchange) { x.NoRounds = true },
		"there is no map for this kind":        func(x *pipeline.Exchange) { x.Hints.TickType = "poetry" },
		"nothing is known of other candidates": func(x *pipeline.Exchange) { x.Found = nil },
	} {
		l := toolprune.Layer{Memory: toolprune.NewChoices()}
		for _, kind := range []string{"risk_check", "trade_execution", "risk_check"} {
			if got := prune(t, l, tickOf(t, kind, change)); slices.Contains(got, "search_tools") || len(got) > 12 {
				t.Errorf("%s: %s has %v", about, kind, got)
			}
		}
	}
	off := toolprune.Layer{Memory: toolprune.NewChoices(), Meta: toolprune.Off}
	for _, kind := range []string{"risk_check", "trade_execution"} {
		if got := prune(t, off, tickOf(t, kind, nil)); slices.Contains(got, "search_tools") {
			t.Errorf("switched off, %s has %v", kind, got)
		}
	}
}

// BenchmarkMixedTick is a tick of an agent with 60 tools that all kinds share.
func BenchmarkMixedTick(b *testing.B) {
	l := toolprune.Layer{Memory: toolprune.NewChoices()}
	tick := func() *pipeline.Exchange {
		raw, _ := json.Marshal(map[string]any{"model": "m", "tools": mixedTools(), "messages": []any{map[string]any{"role": "system", "content": strings.Repeat("You are an agent. ", 300)}, user("Tick.")}})
		r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", raw)
		if err != nil {
			b.Fatal(err)
		}
		return &pipeline.Exchange{Request: r, Hints: policy.Hints{TickType: "risk_check"}, Found: []policy.Resolution{{MinCache: 1, Prices: policy.Prices{Input: 9}}}}
	}
	other := tick()
	other.Hints.TickType = "trade_execution"
	if err := l.Request(b.Context(), other); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		x := tick()
		b.StartTimer()
		if err := l.Request(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}
