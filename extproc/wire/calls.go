package wire

import (
	"cmp"
	"fmt"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
)

// openCall is a tool call and the message that holds it.
type openCall struct{ id, at string }

// openCalls are the tool calls of a turn that have no result yet. A turn may have thousands of calls, and their results may be in any
// order.
type openCalls struct {
	all  []openCall     // all calls of the turn, answered ones included
	left map[string]int // unanswered calls by id
	n    int            // unanswered calls
}

// CheckCalls returns a fault for a history in which a tool call has no result before the assistant's next turn, or a result has no call.
// Every provider would refuse it, with an error that does not match the client's messages. The fault names the message.
func CheckCalls(c *chat.Conversation) error {
	var open openCalls
	answering := false // whether a message of another role followed the calls
	for i := range c.Messages {
		m := &c.Messages[i]
		switch {
		case len(m.Parts) == 0:
		case m.Role != chat.RoleAssistant:
			answering = true
			if err := open.answer(m); err != nil {
				return err
			}
		case answering && open.n > 0:
			return open.unanswered()
		default:
			answering = false
			open.add(m)
		}
	}
	if open.n > 0 {
		return open.unanswered()
	}
	return nil
}

// add registers the calls of a message.
func (o *openCalls) add(m *chat.Message) {
	if o.n == 0 {
		o.all = o.all[:0]
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == chat.PartToolUse {
			if o.left == nil {
				o.left = map[string]int{}
			}
			o.all = append(o.all, openCall{p.Tool.ID, m.At})
			o.left[p.Tool.ID]++
			o.n++
		}
	}
}

// answer removes the calls that a message answers.
func (o *openCalls) answer(m *chat.Message) error {
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != chat.PartToolResult {
			continue
		}
		if o.left[p.Tool.ID] == 0 {
			return misplaced(m.At, "holds a tool result for %q, which the assistant's turn before it did not call, or which has a result already", p.Tool.ID)
		}
		if o.left[p.Tool.ID]--; o.left[p.Tool.ID] == 0 {
			delete(o.left, p.Tool.ID)
		}
		o.n--
	}
	return nil
}

// unanswered returns the fault for the first call without a result. Results of calls with the same id count for the earliest calls.
func (o *openCalls) unanswered() error {
	var first openCall
	for _, c := range slices.Backward(o.all) {
		if o.left[c.id] > 0 {
			o.left[c.id]--
			first = c
		}
	}
	return misplaced(first.at, "holds the tool call %q, but the turn after it has no result for it", first.id)
}

func misplaced(at, format, id string) error {
	at = cmp.Or(at, "messages")
	f := fault.New(fault.InvalidRequest, at+" "+fmt.Sprintf(format, id), nil)
	f.Param = at
	return f
}
