package wire

import (
	"cmp"
	"fmt"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
)

// openCall is a call of a tool, and the message that it stands in.
type openCall struct{ id, at string }

// openCalls are the calls that wait for results. A turn may have thousands of them, in any order.
type openCalls struct {
	all  []openCall     // of the turn, those with results too
	left map[string]int // how many have none yet, by id
	n    int            // of all ids
}

// CheckCalls refuses a history in which a tool call is not answered before the assistant speaks again, or a result
// answers no call: every provider would, in words that fit no message of the caller's. The error is a fault that names
// the message.
func CheckCalls(c *chat.Conversation) error {
	var open openCalls
	answering := false // whether the other side has spoken since the calls
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

// add takes in the calls of a message.
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

// answer takes the calls away that a message answers.
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

// unanswered names the first call without a result. Of several with one id, the first have theirs first.
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
