package crossing_test

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/jsonx"
)

// continueRows are requests of each client's format.
var continueRows = []struct {
	dialect wire.Dialect
	bodies  []string
}{
	{openai.Dialect{}, []string{`{"model":"m","messages":[{"role":"user","content":"Q"}],"bardo":{"subsystem":"risk"}}`}},
	{anthropic.Dialect{}, []string{`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Q"}]}`}},
	{responses.Dialect{}, []string{`{"model":"m","input":"Q"}`, `{"model":"m","input":[{"role":"user","content":"Q"}]}`}},
	{geminiDialect, []string{`{"contents":[{"role":"user","parts":[{"text":"Q"}]}]}`, `{"contents":{"role":"user","parts":[{"text":"Q"}]}}`}},
}

// answerEvents returns the events of an answer with signed thinking, text and two calls.
func answerEvents(thinking string) []chat.Event {
	return []chat.Event{
		{Kind: chat.Start, ID: "x", Model: "m"},
		{Kind: chat.Thought, Index: 0, Text: []byte("Hm. "), ID: thinking},
		{Kind: chat.Signature, Index: 0, Text: []byte("c2ln"), ID: thinking},
		{Kind: chat.BlockStop, Index: 0},
		{Kind: chat.Text, Index: 1, Text: []byte("Wait.")},
		{Kind: chat.BlockStop, Index: 1},
		{Kind: chat.ToolStart, Index: 2, Tool: chat.ToolCall{ID: "c1", Name: "find"}},
		{Kind: chat.ToolArgs, Index: 2, Text: []byte(`{"q":"a"}`)},
		{Kind: chat.BlockStop, Index: 2},
		{Kind: chat.ToolStart, Index: 3, Tool: chat.ToolCall{ID: "c2", Name: "find"}},
		{Kind: chat.BlockStop, Index: 3},
		{Kind: chat.Stop, Reason: chat.StopTool},
		{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 1, Output: 1, Final: true}},
		{Kind: chat.End},
	}
}

// openAIDetails is the signed thinking of a provider of OpenAI's format.
var openAIDetails = chat.Event{
	Kind: chat.Extra, ID: "reasoning_details", Redundant: true,
	Text: []byte(`[{"type":"reasoning.text","text":"Hm. ","signature":"c2ln","format":"anthropic-claude-v1","index":0}]`),
}

// TestRequestsGoOnBehindAnAnswer: the continued request contains the answer, its signed thinking included, and the results, in every
// client's format and for answers of any provider's format.
func TestRequestsGoOnBehindAnAnswer(t *testing.T) {
	for _, row := range continueRows {
		for _, body := range row.bodies {
			for _, same := range []bool{false, true} {
				name := fmt.Sprintf("%s, same=%v", row.dialect.Name(), same)
				r, err := row.dialect.Decode(chat.Generate, nil, "", []byte(body))
				if err != nil {
					t.Fatal(err)
				}
				enc := row.dialect.NewEncoder(wire.Options{Same: same, RequestID: "req_1", Model: "m", Request: r})
				var out []byte
				for _, ev := range answerEvents(chat.ClaudeThinking) {
					if out = enc.Append(out, &ev); ev.Kind == chat.Start && same && row.dialect.Name() == chat.OpenAI {
						out = enc.Append(out, &openAIDetails)
					}
				}
				continued, err := row.dialect.(wire.Continuer).Continue(r, out, []wire.CallResult{ //nolint:forcetypeassert // each is one
					{ID: "c1", Name: "find", Text: "one \"thing\""}, {ID: "c2", Name: "find", Text: "no", IsError: true},
				})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				c := conversation(t, continued)
				if err := wire.CheckCalls(c); err != nil {
					t.Errorf("%s: %v in %s", name, err, continued.Doc.Bytes)
				}
				if got, want := describe(c), `user:Q assistant:(Hm. c2ln) Wait. c1=find{"q":"a"} c2=find{} tool:c1=one "thing" c2=no`; got != want {
					t.Errorf("%s: got  %s\nwant %s\nin %s", name, got, want, continued.Doc.Bytes)
				}
				if strings.Contains(string(continued.Doc.Bytes), "bardo\"") || continued.InputTokens < r.InputTokens {
					t.Errorf("%s: %s", name, continued.Doc.Bytes)
				}
			}
		}
	}
}

// describe formats a conversation for comparison; the results of one turn are merged.
func describe(c *chat.Conversation) string {
	var out []string
	last := chat.Role("")
	for _, m := range c.Messages {
		for _, p := range m.Parts {
			role := m.Role
			if p.Kind == chat.PartToolResult {
				role = chat.RoleTool
			}
			text := map[chat.PartKind]string{ //nolint:exhaustive // other kinds do not occur
				chat.PartText: p.Text, chat.PartThinking: "(" + p.Text + p.Signature + ")", chat.PartToolUse: p.Tool.ID + "=" + p.Tool.Name + p.Tool.Args, chat.PartToolResult: p.Tool.ID + "=",
			}[p.Kind]
			for i := range p.Parts {
				text += p.Parts[i].Text
			}
			if role != last {
				text = string(role) + ":" + text
			}
			last = role
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

func TestAnAnswerWithoutATurnIsAnError(t *testing.T) {
	for _, row := range continueRows {
		r, err := row.dialect.Decode(chat.Generate, nil, "", []byte(row.bodies[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, answer := range []string{`{}`, `[]`, `{`, ``} {
			if continued, err := row.dialect.(wire.Continuer).Continue(r, []byte(answer), []wire.CallResult{{ID: "c"}}); err == nil { //nolint:forcetypeassert // each is one
				t.Errorf("%s: %q became %s", row.dialect.Name(), answer, continued.Doc.Bytes)
			}
		}
	}
}

// TestReasoningOfAnUnstoredResponseIsLeftOut if only its id is known.
func TestReasoningOfAnUnstoredResponseIsLeftOut(t *testing.T) {
	r, err := responses.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","input":"Q"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer := `{"output":[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"e"},{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}"}]}`
	continued, err := responses.Dialect{}.Continue(r, []byte(answer), []wire.CallResult{{ID: "c", Text: "r"}})
	if err != nil {
		t.Fatal(err)
	}
	got := string(continued.Doc.Get("input").Raw)
	if strings.Contains(got, "rs_1") || !strings.Contains(got, "rs_2") || strings.Contains(got, "fc_1") || jsonx.Valid([]byte(got)) != nil {
		t.Errorf("%s", got)
	}
}
