package firewall

import (
	"context"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// The calls in an answer. If a rule is enforced, a call's events are held until its arguments are complete and judged; a provider's frame with a part of a call
// is held as a whole, so that an answer without violations is forwarded byte for byte. Text is not held. From the first removed call on, the answer is encoded
// again.

// maxHeld bounds the held events of one answer, in bytes.
const maxHeld = 16 << 20

// block is a content block of an answer.
type block struct{ choice, index int }

// call is a call of a tool in an answer.
type call struct {
	block
	id, name      string
	custom        bool     // its argument is a text
	args          []byte   // at most maxArgs bytes
	own           *ownCall // set for a call of a provider's own tool; nil for one of the client's
	direct        bool     // the client itself makes it, to a tool of an MCP server: args are those of the tool
	judged        bool
	removed       bool
	noticeWritten bool // the text that replaces it was emitted
}

// held is a held event, and the call that it is a part of; nil for none.
type held struct {
	chat.Event

	call *call
}

// judge is the state of an answer.
type judge struct {
	enforces  bool // calls are held
	calls     []*call
	open      int // calls that are not judged
	held      []held
	bytes     int // of held events
	rewritten bool
	refused   *fault.Fault
}

// Response holds calls until they are judged, and removes those that violate a rule.
func (Layer) Response(_ context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	s, before := slot.Of(x), len(out)
	j := &s.judge
	switch ev.Kind { //nolint:exhaustive // the others are handled below
	case chat.Start:
		*j = judge{enforces: j.enforces}
		x.Holding = false
		x.Untag(Name)
	case chat.Error:
		return append(out, *ev), nil
	}
	c, late := s.callOf(x, ev)
	if !j.enforces {
		s.decideComplete(x, ev, c)
		return append(out, *ev), nil
	}
	if !late {
		out = s.holdOrEmit(x, ev, c, out)
	}
	x.Holding = len(j.held) > 0 || j.refused != nil
	if j.refused == nil {
		return out, nil
	}
	j.held, j.bytes = nil, 0
	if ev.Kind == chat.End { // only then the usage is known, which is billed
		return nil, j.refused
	}
	return out[:before], nil
}

// callOf finds the call that an event is a part of. late: it adds to a call that was already judged, and must be dropped.
func (s *state) callOf(x *pipeline.Exchange, ev *chat.Event) (c *call, late bool) {
	j, at := &s.judge, block{ev.Choice, ev.Index}
	switch ev.Kind { //nolint:exhaustive // no other is a part of a call
	case chat.ToolStart:
		if c = j.callAt(at); c != nil && !c.judged {
			s.decide(x, c)
		}
		return j.begin(at, ev), false
	case chat.ToolArgs:
		if c = j.callAt(at); c == nil {
			c = j.begin(at, &chat.Event{})
		}
		if c.judged {
			j.rewritten = j.rewritten || j.enforces && len(ev.Text) > 0
			return c, j.enforces
		}
		if left := maxArgs - len(c.args); left > 0 {
			c.args = append(c.args, ev.Text[:min(left, len(ev.Text))]...)
		}
		return c, false
	case chat.BlockStop:
		return j.callAt(at), false
	case chat.Extra, chat.Other:
		return j.ownCallOf(at, ev), false
	}
	return nil, false
}

// callAt is the last call of a block; nil for none.
func (j *judge) callAt(b block) *call {
	for _, c := range slices.Backward(j.calls) {
		if c.block == b {
			return c
		}
	}
	return nil
}

func (j *judge) begin(at block, ev *chat.Event) *call {
	c := &call{block: at, id: ev.Tool.ID, name: ev.Tool.Name, custom: ev.ID == chat.CustomTool}
	j.calls = append(j.calls, c)
	j.open++
	return c
}

// decideComplete judges the calls that an event completes; c is the call that it is a part of.
func (s *state) decideComplete(x *pipeline.Exchange, ev *chat.Event, c *call) {
	switch ev.Kind { //nolint:exhaustive // no other completes one
	case chat.Extra:
		if c != nil && c.own != nil && !c.judged {
			s.decide(x, c)
		}
	case chat.BlockStop:
		if c != nil && !c.judged {
			s.decide(x, c)
		}
	case chat.Stop, chat.End:
		for _, c := range s.judge.calls {
			if !c.judged && (ev.Kind == chat.End || c.choice == ev.Choice) {
				s.decide(x, c)
			}
		}
	}
}

// holdOrEmit holds an event, or emits it after the held events that no longer have to wait.
func (s *state) holdOrEmit(x *pipeline.Exchange, ev *chat.Event, c *call, out []chat.Event) []chat.Event {
	j := &s.judge
	inFrame := ev.Frame != chat.NoCalls && (ev.Raw != nil || ev.Tail)
	s.decideComplete(x, ev, c)
	switch {
	case len(j.held) == 0 && j.open == 0 && !inFrame:
		return s.emit(ev, c, out)
	case !inFrame && s.overtakes(x, ev):
		return s.emit(ev, c, out)
	}
	j.held = append(j.held, held{ev.Detached(), c})
	if j.bytes += len(ev.Raw) + len(ev.Text); j.bytes > maxHeld {
		j.refused = refusal("the model's tool calls are too large to be checked")
		return out
	}
	if j.open > 0 || inFrame && ev.Frame != chat.LastPart && ev.Kind != chat.End {
		return out
	}
	for i := range j.held {
		out = s.emit(&j.held[i].Event, j.held[i].call, out)
	}
	j.held, j.bytes = nil, 0
	return out
}

// overtakes reports whether an event is emitted before held calls. The frames of the Responses API are numbered, and keep their order.
func (*state) overtakes(x *pipeline.Exchange, ev *chat.Event) bool {
	switch ev.Kind { //nolint:exhaustive // others keep their order with calls
	case chat.Text, chat.Thought, chat.Refusal:
		return !ev.Tail && (ev.Raw == nil || x.Request.Dialect != chat.Responses)
	}
	return false
}

// emit appends an event in the form that the client gets.
func (s *state) emit(ev *chat.Event, c *call, out []chat.Event) []chat.Event {
	j := &s.judge
	if c != nil && c.removed {
		if c.noticeWritten || ev.Kind == chat.Extra && c.own == nil {
			return out
		}
		c.noticeWritten = true
		return append(out,
			chat.Event{Kind: chat.Extra, ID: chat.ItemID, Choice: c.choice, Index: c.index, Redundant: true}, // the text is not the call's item
			chat.Event{Kind: chat.Text, Choice: c.choice, Index: c.index, Text: s.notice(c)}, chat.Event{Kind: chat.BlockStop, Choice: c.choice, Index: c.index})
	}
	if !j.rewritten {
		return append(out, *ev)
	}
	if ev.Kind == chat.Other { // pings, and frames around the content, which the encoder generates
		return out
	}
	e := *ev
	e.Raw, e.Tail, e.ModelSpan, e.UsageChunk, e.Frame = nil, false, chat.Span{}, false, chat.NoCalls
	if e.Kind == chat.Stop && (e.Reason == chat.StopTool && !j.calledIn(e.Choice) || e.Reason == chat.StopPause && j.removedOwn(e.Choice)) {
		e.Reason = chat.StopEnd
	}
	return append(out, e)
}

// calledIn reports whether a choice has a call of the client's tools that was not removed.
func (j *judge) calledIn(choice int) bool {
	return slices.ContainsFunc(j.calls, func(c *call) bool { return c.choice == choice && !c.removed && c.own == nil })
}

// removedOwn reports whether a call of the provider's own tools was removed from a choice, so that a pause of the provider has no reason.
func (j *judge) removedOwn(choice int) bool {
	return slices.ContainsFunc(j.calls, func(c *call) bool { return c.choice == choice && c.removed && c.own != nil })
}

// notice is the text that replaces a removed call.
func (s *state) notice(c *call) []byte {
	return []byte("[The gateway removed a call of the tool \"" + fault.Clip(c.name) + "\": its rules do not allow " + s.violated(c) + ".]")
}

// violated describes for the client what was not allowed: the tool or its arguments.
func (s *state) violated(c *call) string {
	for _, r := range s.rules {
		if why := r.objectionTo(c); why != "" && !r.Shadow {
			return "this tool here"
		}
	}
	return "these arguments"
}

// record tags the decision about a call.
func (s *state) record(x *pipeline.Exchange, c *call, r *Rule, decision, reason string, shadow bool) {
	t := policy.Tag{Stage: policy.StageCall, Tool: otherTool, Decision: decision, Reason: reason, Shadow: shadow}
	if r != nil {
		t.Rule = r.ID
	}
	if name := s.offeredAs(c); name != "" {
		names := []string{name}
		if c.own != nil {
			names = append(names, c.own.names...)
		}
		t.Tool = s.recordedName(names...)
	}
	tag(x, t)
}
