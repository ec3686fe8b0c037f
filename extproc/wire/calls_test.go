package wire_test

import (
	"errors"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
)

func calls(at string, ids ...string) chat.Message {
	m := chat.Message{Role: chat.RoleAssistant, At: at, Parts: []chat.Part{{Kind: chat.PartText, Text: "I look."}}}
	for _, id := range ids {
		m.Parts = append(m.Parts, chat.Part{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: id}})
	}
	return m
}

func results(at string, ids ...string) chat.Message {
	m := chat.Message{Role: chat.RoleTool, At: at}
	for _, id := range ids {
		m.Parts = append(m.Parts, chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: id}})
	}
	return m
}

func message(role chat.Role, at string) chat.Message {
	return chat.Message{Role: role, At: at, Parts: []chat.Part{{Kind: chat.PartText, Text: "hi"}}}
}

func TestK96EveryCallHasItsResultAndEveryResultItsCall(t *testing.T) {
	const (
		noResult = `1 holds the tool call "a", but the turn after it has no result for it`
		noCall   = ` holds a tool result for "a", which the assistant's turn before it did not call, or which has a result already`
	)
	empty := chat.Message{Role: chat.RoleUser, At: "2"}
	user := message(chat.RoleUser, "0")
	tests := []struct {
		name     string
		messages []chat.Message
		refusal  string
	}{
		{"no calls", []chat.Message{user, message(chat.RoleAssistant, "1")}, ""},
		{"one", []chat.Message{user, calls("1", "a"), results("2", "a")}, ""},
		{"parallel, in any order, over several messages", []chat.Message{user, calls("1", "a", "b"), results("2", "b"), results("3", "a")}, ""},
		{"words between a call and its result", []chat.Message{user, calls("1", "a"), user, results("2", "a")}, ""},
		{"a turn in two messages", []chat.Message{user, calls("1", "a"), calls("2", "b"), results("3", "a", "b")}, ""},
		{"a message that says nothing is no turn", []chat.Message{user, calls("1", "a"), empty, message(chat.RoleAssistant, "3"), results("4", "a")}, ""},
		{"ids that begin anew", []chat.Message{user, calls("1", "a"), results("2", "a"), calls("3", "a"), results("4", "a")}, ""},
		{"a call at the end", []chat.Message{user, calls("1", "a")}, noResult},
		{"a call that was passed over", []chat.Message{user, calls("1", "a"), user, message(chat.RoleAssistant, "3")}, noResult},
		{"one of two", []chat.Message{user, calls("1", "b", "a"), results("2", "b"), user}, noResult},
		{"a result at the start", []chat.Message{results("0", "a")}, "0" + noCall},
		{"a result too late", []chat.Message{user, calls("1", "b"), results("2", "b"), calls("3"), results("4", "a")}, "4" + noCall},
		{"a second result", []chat.Message{user, calls("1", "a"), results("2", "a"), results("3", "a")}, "3" + noCall},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := wire.CheckCalls(&chat.Conversation{Messages: tt.messages})
			if tt.refusal == "" && err == nil {
				return
			}
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != fault.InvalidRequest || f.Public != tt.refusal || f.Param != tt.refusal[:1] {
				t.Errorf("got %v, want %q", err, tt.refusal)
			}
		})
	}
}
