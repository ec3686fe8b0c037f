package toolcall_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/toolcall"
	"bardo.money/gateway/internal/jsonx"
)

var update = flag.Bool("update", false, "update the golden files")

var no = false

// talk returns a conversation with tools, two calls in one turn and their results.
func talk() *chat.Conversation {
	text := func(s string) chat.Part { return chat.Part{Kind: chat.PartText, Text: s} }
	result := func(id string, failed bool, parts ...chat.Part) chat.Part {
		return chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: id}, Parts: parts, IsError: failed}
	}
	return &chat.Conversation{
		System: []chat.Part{text("Be brief.")},
		Tools: []chat.Tool{
			{Name: "weather", Description: "Says the \"weather\".", Schema: jsonx.Raw("{\"type\": \"object\",\n \"properties\": {\"city\": {\"type\": \"string\"}}}"), Strict: true},
			{Name: "web_search", Raw: jsonx.Raw(`{"type":"web_search_20250305","name":"web_search"}`)},
			{Name: "now", CacheControl: jsonx.Raw(`{"type":"ephemeral"}`)},
		},
		ToolChoice: chat.ToolChoice{Mode: chat.ToolNamed, Name: "weather"}, ParallelTools: &no,
		Messages: []chat.Message{
			{Role: chat.RoleUser, Parts: []chat.Part{text("Oslo?")}},
			{Role: chat.RoleAssistant, Parts: []chat.Part{
				text("Let me look."),
				{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: "c1", Name: "weather", Args: `{"city": "Oslo"}`}},
				{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: "c2", Name: "now", Args: `{}`}},
			}},
			{Role: chat.RoleTool, Parts: []chat.Part{result("c1", false, text(`{"sky": "blue"}`))}},
			{Role: chat.RoleTool, Parts: []chat.Part{result("c2", true, text("no clock"), chat.Part{Kind: chat.PartImage, Media: "image/png", Data: "AA=="})}},
			{Role: chat.RoleUser, Parts: []chat.Part{text("And now?")}},
		},
	}
}

// show formats a conversation for the golden files.
func show(c *chat.Conversation, degraded []string) string {
	var b strings.Builder
	parts := func(who string, ps []chat.Part) {
		b.WriteString("── " + who + "\n")
		for i := range ps {
			if ps[i].Kind != chat.PartText {
				b.WriteString("(" + ps[i].Media + ")\n")
				continue
			}
			b.WriteString(ps[i].Text + "\n")
			if ps[i].CacheControl != nil {
				b.WriteString("(cache mark)\n")
			}
		}
	}
	parts("system", c.System)
	for i := range c.Messages {
		parts(string(c.Messages[i].Role), c.Messages[i].Parts)
	}
	b.WriteString("── degraded: " + strings.Join(degraded, ", ") + "\n")
	return b.String()
}

func TestRenderInEachFormat(t *testing.T) {
	for _, f := range []toolcall.Format{toolcall.Hermes, toolcall.Qwen, toolcall.JSON} {
		t.Run(string(f), func(t *testing.T) {
			c := talk()
			text, degraded := toolcall.Render(c, f)
			if !reflect.DeepEqual(c, talk()) {
				t.Error("the client's conversation was changed")
			}
			if len(text.Tools) > 0 || text.ToolChoice != (chat.ToolChoice{}) || text.ParallelTools != nil {
				t.Errorf("tools are still offered natively: %+v", text)
			}
			got := show(text, degraded)
			if second, _ := toolcall.Render(c, f); show(second, degraded) != got {
				t.Error("the same conversation gave other bytes")
			}
			golden := filepath.Join("testdata", string(f)+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestRenderedCallsAreParsedBack(t *testing.T) {
	for _, f := range []toolcall.Format{toolcall.Hermes, toolcall.Qwen, toolcall.JSON} {
		text, _ := toolcall.Render(talk(), f)
		var calls strings.Builder
		for _, p := range text.Messages[1].Parts[1:] { // without the text before, which must not precede plain JSON
			calls.WriteString(p.Text)
		}
		if got, _ := feed(t, f, calls.String(), 3); got != `⟦weather {"city": "Oslo"}⟧⟦now {}⟧` {
			t.Errorf("%s: %q reads as %q", f, calls.String(), got)
		}
	}
}

func TestToolChoiceInThePrompt(t *testing.T) {
	tool := []chat.Tool{{Name: "now"}}
	for _, row := range []struct {
		about    string
		c        chat.Conversation
		contains string
		offered  int
		degraded []string
	}{
		{"K-78 none said", chat.Conversation{Tools: tool}, "", 1, nil},
		{"any", chat.Conversation{Tools: tool, ToolChoice: chat.ToolChoice{Mode: chat.ToolAny}}, "must call at least one function", 1, []string{"tool_choice"}},
		{"named", chat.Conversation{Tools: tool, ToolChoice: chat.ToolChoice{Mode: chat.ToolNamed, Name: "now"}}, "must call the function now", 1, []string{"tool_choice"}},
		{"none: nothing is offered, and nothing read", chat.Conversation{Tools: tool, ToolChoice: chat.ToolChoice{Mode: chat.ToolNone}}, "", 0, nil},
		{
			"one at a time, in the client's words",
			chat.Conversation{Tools: tool, ParallelTools: &no, Words: map[string]string{"disable_parallel_tool_use": "parallel_tool_calls"}},
			"at most one function", 1,
			[]string{"parallel_tool_calls"},
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			text, degraded := toolcall.Render(&row.c, toolcall.Hermes)
			var system string
			for _, p := range text.System {
				system += p.Text
			}
			if !strings.Contains(system, row.contains) || (system == "") != (row.offered == 0) || !slices.Equal(degraded, row.degraded) {
				t.Errorf("the model is told %q, degraded %q", system, degraded)
			}
			if n := len(toolcall.Offered(&row.c)); n != row.offered {
				t.Errorf("%d tools are offered, want %d", n, row.offered)
			}
		})
	}
}

func TestWithoutToolsNothingChanges(t *testing.T) {
	c := &chat.Conversation{Messages: []chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{{Kind: chat.PartText, Text: "hi"}}}}}
	if text, degraded := toolcall.Render(c, toolcall.Hermes); text != c || degraded != nil {
		t.Errorf("%+v became %+v", c, text)
	}
}
