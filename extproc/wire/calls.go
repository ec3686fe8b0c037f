package wire

import (
	"cmp"
	"fmt"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
)

// openCall is a call that has no result yet.
type openCall struct{ id, at string }

// CheckCalls refuses a history in which a tool call is not answered before the assistant speaks again, or a result
// answers no call: every provider would, in words that fit no message of the caller's. The error is a fault that names
// the message.
func CheckCalls(c *chat.Conversation) error {
	var open []openCall
	answering := false // whether the other side has spoken since the calls
	for i := range c.Messages {
		m := &c.Messages[i]
		switch {
		case len(m.Parts) == 0:
		case m.Role != chat.RoleAssistant:
			answering = true
			var err error
			if open, err = closeCalls(open, m); err != nil {
				return err
			}
		case answering && len(open) > 0:
			return unanswered(open[0])
		default:
			answering = false
			open = appendCalls(open, m)
		}
	}
	if len(open) > 0 {
		return unanswered(open[0])
	}
	return nil
}

func appendCalls(open []openCall, m *chat.Message) []openCall {
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == chat.PartToolUse {
			open = append(open, openCall{p.Tool.ID, m.At})
		}
	}
	return open
}

// closeCalls takes the calls away that a message answers.
func closeCalls(open []openCall, m *chat.Message) ([]openCall, error) {
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != chat.PartToolResult {
			continue
		}
		j := slices.IndexFunc(open, func(c openCall) bool { return c.id == p.Tool.ID })
		if j < 0 {
			return nil, misplaced(m.At, "holds a tool result for %q, which the assistant's turn before it did not call, or which has a result already", p.Tool.ID)
		}
		open = slices.Delete(open, j, j+1)
	}
	return open, nil
}

func unanswered(c openCall) error {
	return misplaced(c.at, "holds the tool call %q, but the turn after it has no result for it", c.id)
}

func misplaced(at, format, id string) error {
	at = cmp.Or(at, "messages")
	f := fault.New(fault.InvalidRequest, at+" "+fmt.Sprintf(format, id), nil)
	f.Param = at
	return f
}
