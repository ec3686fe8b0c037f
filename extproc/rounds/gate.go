// Package rounds separates the calls of layers' tools from an answer: a layer may give the model tools of its own (pipeline.Caller). An answer that calls such
// a tool, and none of the client's, is not the end of the request: the layer answers the calls, and the same candidate is called again with the answer and the
// results behind its messages. The client sees one answer: the text and the thoughts of all rounds in their order, none of the layers' calls, and the usage
// of all calls.
//
// An answer with calls of both kinds ends the request: the client gets its own calls, and the others are dropped, since only the client can make the results of
// its tools. The model finds its history without them and may call again.
//
// The package makes no calls and knows no money; package extproc does both.
package rounds

import (
	"bytes"
	"context"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/wire"
)

// State is what is known of a request that may have several rounds. It belongs to the request's goroutine.
type State struct {
	Done   int          // answers whose calls were answered inside the gateway
	Layer  string       // whose tools the model called
	Shown  []chat.Event // content of these answers, for a client that has nothing yet
	Texts  bool         // the client has, or will get, text of them
	Blocks int          // numbers of content blocks that they use

	Encoder   wire.Encoder // that began the client's stream; nil while the client has nothing
	Reasoning *render.Presenter
	Dialect   chat.Dialect // of the provider whose answer began the stream
}

// Sink takes the events that a gate lets pass.
type Sink interface {
	Take(ctx context.Context, ev *chat.Event)
	IsOver() bool // it takes no more
}

// Gate separates the calls of layers' tools from the rest of an answer. It stands behind the stages, where calls in text are calls, and before the layers,
// which see what the client will get. It belongs to the goroutine that reads the answer.
type Gate struct {
	View    *request.View
	State   *State
	Dialect chat.Dialect      // of the answer's provider
	Count   *meter.Count      // its usage
	Before  func() chat.Usage // usage of the calls before
	Held    *int64            // counts the bytes that are kept
	Sink    Sink

	Whole []chat.Event    // the answer as the model gave it
	Calls []chat.ToolCall // those that are answered inside the gateway
	Again bool            // the answer is complete, and another round follows

	head    []chat.Event         // start and usage, held until there is content for the client
	opened  bool                 // they were passed on
	numbers map[int]int          // of blocks, by their numbers in the provider's answer
	open    []int                // blocks that have begun and not ended, by their new numbers
	next    int                  // number of the next block
	began   bool                 // text of this answer was passed on
	ahead   map[int][]chat.Event // of blocks that have not begun, by their numbers in the provider's answer: events about them

	partial   map[int]*openCall // calls of layers' tools whose arguments are not complete
	forwarded bool              // the client gets a call
	stop      *chat.Event
	usage     []chat.Event
}

// Begin prepares the gate for its first event.
func (g *Gate) Begin() {
	g.next, g.numbers, g.partial, g.ahead = g.State.Blocks, map[int]int{}, map[int]*openCall{}, map[int][]chat.Event{}
}

// Close adds the answer, whose calls were answered inside the gateway, to the state of its request.
func (g *Gate) Close() {
	g.State.Done++
	g.State.Blocks, g.State.Texts = g.next, g.State.Texts || g.began
}

type openCall struct {
	call chat.ToolCall
	args []byte
}

// Read takes an event of the answer. Usage is counted here: what is shown of it later may be that of several calls.
func (g *Gate) Read(ctx context.Context, ev *chat.Event) {
	g.Count.Note(ev)
	g.keep(ev)
	switch ev.Kind {
	case chat.Start:
		g.head = append(g.head, plain(ev))
	case chat.UsageInfo:
		g.count(ev)
	case chat.ToolStart:
		if g.View.IsReserved(ev.Tool.Name) {
			g.partial[ev.Index] = &openCall{call: ev.Tool}
			return
		}
		g.forwarded = true
		g.pass(ctx, ev)
	case chat.ToolArgs:
		if c := g.partial[ev.Index]; c != nil {
			c.args = append(c.args, ev.Text...)
			return
		}
		g.pass(ctx, ev)
	case chat.BlockStop:
		if g.partial[ev.Index] != nil {
			g.complete(ctx, ev.Index)
			return
		}
		g.pass(ctx, ev)
	case chat.Stop:
		stop := plain(ev)
		g.stop = &stop
	case chat.End:
		g.end(ctx)
	case chat.Extra:
		g.extra(ctx, ev)
	case chat.Error:
		g.Sink.Take(ctx, ev)
	case chat.Other: // only meaningful beside the provider's own bytes
	case chat.Text, chat.Thought, chat.Signature, chat.Redacted, chat.Refusal:
		g.pass(ctx, ev)
	}
}

// extra passes on what only the answer's own dialect has, unless another one began the client's stream. It is no content.
func (g *Gate) extra(ctx context.Context, ev *chat.Event) {
	switch r := g.State; {
	case r.Encoder != nil && r.Dialect != g.Dialect:
	case ev.IsAhead():
		g.ahead[ev.Index] = append(g.ahead[ev.Index], plain(ev))
	case g.opened:
		g.pass(ctx, ev)
	default:
		g.head = append(g.head, plain(ev))
	}
}

// plain is a copy of an event that refers to no buffer of its decoder, without the provider's bytes.
func plain(ev *chat.Event) chat.Event {
	e := *ev
	e.Text, e.Raw, e.Tail, e.ModelSpan, e.UsageChunk = bytes.Clone(ev.Text), nil, false, chat.Span{}, false
	return e
}

// keep adds an event to the answer as the model gets it back.
func (g *Gate) keep(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the rest is content
	case chat.Error, chat.Other:
		return
	}
	g.Whole = append(g.Whole, plain(ev))
	*g.Held += int64(len(ev.Text))
}

// count keeps a report of usage: the first ones belong to the head, the others come at the end.
func (g *Gate) count(ev *chat.Event) {
	if len(g.head) > 0 && !g.opened && !g.Count.Reported.Final {
		g.head = append(g.head, plain(ev))
		return
	}
	g.usage = append(g.usage, plain(ev))
}

// number is the new number of a block, which is opened if it has none: what is known of it comes before it.
func (g *Gate) number(ctx context.Context, index int) int {
	n, ok := g.numbers[index]
	if ok {
		return n
	}
	n = g.next
	g.next++
	g.numbers[index] = n
	g.open = append(g.open, n)
	for i := range g.ahead[index] {
		ev := &g.ahead[index][i]
		ev.Index = n
		g.forward(ctx, ev)
	}
	delete(g.ahead, index)
	return n
}

// pass passes an event on, with the new number of its block.
func (g *Gate) pass(ctx context.Context, ev *chat.Event) {
	g.begin(ctx)
	e := *ev
	e.Raw, e.Tail, e.ModelSpan, e.UsageChunk = nil, false, chat.Span{}, false
	switch ev.Kind {
	case chat.Extra:
		if n, ok := g.numbers[ev.Index]; ok {
			e.Index = n
		}
	case chat.BlockStop:
		n, ok := g.numbers[ev.Index]
		if !ok {
			return
		}
		e.Index = n
		g.close(n)
	case chat.Text:
		e.Index = g.number(ctx, ev.Index)
		g.separate(ctx, &e)
	default:
		e.Index = g.number(ctx, ev.Index)
	}
	g.forward(ctx, &e)
}

// separate puts an empty line between the texts of two rounds.
func (g *Gate) separate(ctx context.Context, first *chat.Event) {
	if !g.began && g.State.Texts && len(first.Text) > 0 {
		line := *first
		line.Text = []byte("\n\n")
		g.forward(ctx, &line)
	}
	g.began = g.began || len(first.Text) > 0
}

func (g *Gate) close(number int) {
	for i, n := range g.open {
		if n == number {
			g.open = append(g.open[:i], g.open[i+1:]...)
			return
		}
	}
}

// forward passes an event on as it is.
func (g *Gate) forward(ctx context.Context, ev *chat.Event) {
	if !g.Sink.IsOver() {
		g.Sink.Take(ctx, ev)
	}
}

// begin passes on the start of the answer, unless the client has it from an earlier round, and what it has not got yet of those.
func (g *Gate) begin(ctx context.Context) {
	if g.opened {
		return
	}
	g.opened = true
	r := g.State
	if r.Encoder != nil {
		return
	}
	for i := range g.head {
		g.forward(ctx, &g.head[i])
	}
	for i := range r.Shown {
		g.forward(ctx, &r.Shown[i])
	}
}

// complete decides about a call of a layer's tool whose arguments are complete.
func (g *Gate) complete(ctx context.Context, index int) {
	c := g.partial[index]
	delete(g.partial, index)
	if c.call.Args = string(bytes.TrimSpace(c.args)); c.call.Args == "" {
		c.call.Args = "{}"
	}
	own, ok := g.View.TranslateCall(&c.call)
	if !ok {
		g.Calls = append(g.Calls, c.call)
		return
	}
	g.forwarded = true
	g.begin(ctx)
	n := g.number(ctx, index)
	g.forward(ctx, &chat.Event{Kind: chat.ToolStart, Index: n, Tool: chat.ToolCall{ID: own.ID, Name: own.Name}})
	g.forward(ctx, &chat.Event{Kind: chat.ToolArgs, Index: n, Text: []byte(own.Args)})
	g.forward(ctx, &chat.Event{Kind: chat.BlockStop, Index: n})
	g.close(n)
}

// end ends the answer, or the round.
func (g *Gate) end(ctx context.Context) {
	for i := range g.Whole { // calls whose blocks did not end, in their order
		if ev := &g.Whole[i]; ev.Kind == chat.ToolStart && g.partial[ev.Index] != nil {
			g.complete(ctx, ev.Index)
		}
	}
	if g.Again = g.mayGoOn(); g.Again {
		g.closeBlocks(ctx)
		return
	}
	if len(g.Calls) > 0 && !g.forwarded && g.State.Done == g.View.Rounds() {
		g.View.Request.Dropped = wire.AppendDegraded(slices.Clip(g.View.Request.Dropped), degradedRounds) // the request is of the round before
	}
	g.begin(ctx)
	if g.stop != nil {
		if g.stop.Reason == chat.StopTool && !g.forwarded {
			g.stop.Reason = chat.StopEnd // the calls that it stopped for are not the client's
		}
		g.forward(ctx, g.stop)
	}
	g.passUsage(ctx)
	g.forward(ctx, &chat.Event{Kind: chat.End})
}

// degradedRounds is the entry in X-Bardo-Degraded of an answer whose model still calls the gateway's tools after the last round.
const degradedRounds = "tool_rounds"

// mayGoOn reports whether the calls of a complete answer are answered inside the gateway.
func (g *Gate) mayGoOn() bool {
	if len(g.Calls) == 0 || g.forwarded || g.Sink.IsOver() {
		return false
	}
	if g.stop != nil && g.stop.Reason != chat.StopTool && g.stop.Reason != chat.StopEnd {
		return false // it was cut off, or refused
	}
	return g.State.Done < g.View.Rounds()
}

// closeBlocks ends the blocks that the provider left open: others follow in the next round.
func (g *Gate) closeBlocks(ctx context.Context) {
	for _, n := range g.open {
		g.forward(ctx, &chat.Event{Kind: chat.BlockStop, Index: n})
	}
	g.open = nil
}

// passUsage passes on what the provider reported; after several rounds, the usage of all of them.
func (g *Gate) passUsage(ctx context.Context) {
	if g.State.Done == 0 {
		for i := range g.usage {
			g.forward(ctx, &g.usage[i])
		}
		return
	}
	all := meter.Sum(g.Count.Total(g.View.Request.InputTokens), g.Before())
	all.Final = true
	g.forward(ctx, &chat.Event{Kind: chat.UsageInfo, Usage: all})
}
