package pipeline

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// Limits of calls that are answered inside the gateway (D-36).
const (
	MaxRounds       = 4        // of one request
	MaxRoundResults = 16 << 10 // bytes of all results of a round together
)

// Caller is a layer whose own tools the model may call. Their calls never reach the client. Safe for concurrent use.
type Caller interface {
	// Translate returns the client's own call that replaces a call of one of the layer's tools; ok is false for a call that is answered inside the
	// gateway. The arguments are as the model wrote them, possibly invalid JSON.
	Translate(x *Exchange, c *chat.ToolCall) (own chat.ToolCall, ok bool)
	// Answer returns the result of a call that is answered inside the gateway, of at most maxBytes. The client waits for it: it may call a local
	// model for some milliseconds, but nothing else outside the process, and returns when ctx ends.
	Answer(ctx context.Context, x *Exchange, c *chat.ToolCall, maxBytes int) Result
}

// Result is the result of a call, for the model.
type Result struct {
	Text    string
	IsError bool
	Layer   string // the layer that answered; "" for none
}

// caller is a layer and the names of its tools.
type caller struct {
	Caller

	layer  string
	rounds int
	tools  []string
}

// MayCall reports whether calls of a layer's own tools can be answered for this request: there is one answer, of one model, and no provider stores
// it.
func (x *Exchange) MayCall() bool { return !x.NoRounds }

// AnswerCalls reserves tool names for a layer. An answer that calls such tools and none of the client's is not sent: the layer answers the calls, and
// the model is called again with the results, at most rounds times per request. The caller adds the definitions, whose names must differ from the
// client's own tools. It requires MayCall.
func (x *Exchange) AnswerCalls(layer string, c Caller, rounds int, tools ...string) {
	x.callers = append(x.callers, caller{c, layer, min(rounds, MaxRounds), tools})
}

// Rounds returns how often the model may be called again with results of reserved tools; 0 without any.
func (x *Exchange) Rounds() (n int) {
	for i := range x.callers {
		n = max(n, x.callers[i].rounds)
	}
	return n
}

// IsReserved reports whether a tool is a layer's.
func (x *Exchange) IsReserved(tool string) bool { return x.callerOf(tool) != nil }

func (x *Exchange) callerOf(tool string) *caller {
	for i := range x.callers {
		if slices.Contains(x.callers[i].tools, tool) {
			return &x.callers[i]
		}
	}
	return nil
}

// TranslateCall calls Caller.Translate of the layer that owns the tool.
func (x *Exchange) TranslateCall(c *chat.ToolCall) (own chat.ToolCall, ok bool) {
	l := x.callerOf(c.Name)
	if l == nil {
		return own, false
	}
	return l.Translate(x, c)
}

// RoundResults returns the results of the calls of one round, in order.
func (x *Exchange) RoundResults(ctx context.Context, calls []chat.ToolCall) []Result {
	out := make([]Result, len(calls))
	left := MaxRoundResults
	for i := range calls {
		out[i] = Result{Text: "Too many calls at the same time: make this one again.", IsError: true}
		l := x.callerOf(calls[i].Name)
		if l == nil || left < MaxRoundResults/16 {
			continue
		}
		out[i] = l.Answer(ctx, x, &calls[i], left)
		out[i].Layer = l.layer
		left -= len(out[i].Text)
		x.NoteOf(l.layer, "answered", 1)
	}
	return out
}

// NoteOf adds to a count in the note of a layer's log entry: answered=2.
func (x *Exchange) NoteOf(layer, name string, n int) {
	for i := len(x.Log) - 1; i >= 0; i-- {
		if x.Log[i].Layer == layer {
			x.Log[i].Note = addCount(x.Log[i].Note, name, n)
			return
		}
	}
}

// addCount adds to a count in a note, whose parameters are separated by semicolons.
func addCount(note, name string, n int) string {
	var out []string
	for part := range strings.SplitSeq(note, ";") {
		key, value, _ := strings.Cut(part, "=")
		if key == name {
			was, _ := strconv.Atoi(value)
			n += was
			continue
		}
		if part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(append(out, name+"="+strconv.Itoa(n)), ";")
}
