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

func asked(t *testing.T, l toolprune.Layer, messages []any, tools []map[string]any) (*pipeline.Exchange, []string) {
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
		{"more, said by name", 101, toolprune.Auto, "", false, true},
		{"switched off", 101, toolprune.Off, "", false, false},
		{"no tools are left out", 101, toolprune.On, toolprune.Off, false, false},
		{"switched on, for those whose tools are chosen", 60, toolprune.On, "", false, true},
		{"switched on, for another", 30, toolprune.On, "", false, false},
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

// TestNamesOfMetaToolsAreFree: a client's own tools keep theirs.
func TestNamesOfMetaToolsAreFree(t *testing.T) {
	tools := append(catalog(120), tool("search_tools", "The client's."), tool("execute_tool", "The client's."), tool("bardo_execute_tool", "The client's."))
	_, got := asked(t, toolprune.Layer{}, []any{user("hi")}, tools)
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

// TestD36AConversationKeepsItsMetaTools: a call by execute_tool is shown as one, and adds no definition. Calls before the gateway saw the conversation keep
// their tools, as do tools that the request forces or marks, and a provider's own.
func TestD36AConversationKeepsItsMetaTools(t *testing.T) {
	l := toolprune.Layer{Memory: toolprune.NewChoices()}
	first := []any{user("Fly me to Oslo")}
	_, got := asked(t, l, first, catalog(120))
	second := append(slices.Clone(first), called("c1", "book_flight", `{"to":"Oslo"}`)...)
	x, later := asked(t, l, second, catalog(120))
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
	_, got = asked(t, toolprune.Layer{}, second, tools)
	if want := append(slices.Clone(three), "unrelated_3", "book_flight", ""); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestCallsOfMetaTools are answered from the request's own definitions, or become calls of the client's tools.
func TestCallsOfMetaTools(t *testing.T) {
	x, _ := asked(t, toolprune.Layer{}, []any{user("Fly me to Oslo")}, catalog(120))
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
		res := x.RoundResults([]chat.ToolCall{c})[0]
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

// FuzzCallsOfMetaTools: whatever a model writes is answered within the bound, or becomes a call with an object.
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
		if res := x.RoundResults([]chat.ToolCall{c})[0]; res.Text == "" || len(res.Text) > pipeline.MaxRoundResults {
			t.Errorf("%q is answered by %d bytes", args, len(res.Text))
		}
	})
}
