// Package rounds separates the calls of layers' tools from an answer: a layer may offer tools to the model (pipeline.Caller). If an answer calls such a tool, and
// none of the client's, the layer executes the calls, and the same candidate is called again with the answer and the results appended to the messages. The
// client gets one answer: the text and the thoughts of all rounds in order, none of the layers' calls, and the usage of all rounds.
//
// An answer with calls of both kinds ends the request: the client gets its own calls, whose results only it can produce, and the others are dropped. They are not
// in the history of the next request, and the model may repeat them.
//
// The package makes no calls of providers and no charges; package extproc does both.
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

// State is the state of a request over its rounds. It belongs to the request's goroutine.
type State struct {
	Done   int          // finished rounds, whose calls the gateway executed
	Layer  string       // whose tools the model called
	Shown  []chat.Event // content of these rounds, while the client has nothing yet
	Texts  bool         // these rounds have text for the client
	Blocks int          // number of content blocks of these rounds

	Encoder   wire.Encoder // of the client's stream; nil while the client has nothing
	Reasoning *render.Presenter
	Dialect   chat.Dialect // of the provider of the first streamed answer
}

// Sink receives the events for the client.
type Sink interface {
	Take(ctx context.Context, ev *chat.Event)
	IsOver() bool // no more events are accepted
}

// Gate separates the calls of layers' tools from the rest of an answer. It runs after the stages, which parse calls in text, and before the layers, which get the
// client's answer. It belongs to the goroutine that reads the answer.
type Gate struct {
	View    *request.View
	State   *State
	Dialect chat.Dialect      // of the answer's provider
	Count   *meter.Count      // the answer's usage
	Before  func() chat.Usage // usage of earlier rounds
	Held    *int64            // counts the retained bytes
	Sink    Sink

	Whole []chat.Event    // the complete answer of the model
	Calls []chat.ToolCall // calls that the gateway executes
	Again bool            // the answer is complete, and another round follows

	head    []chat.Event         // start and usage, held until there is content for the client
	opened  bool                 // head was forwarded
	numbers map[int]int          // the client's block numbers, by those of the provider's answer
	open    []int                // open blocks, by the client's numbers
	next    int                  // the client's number of the next block
	began   bool                 // text of this answer was forwarded
	ahead   map[int][]chat.Event // early events about blocks that have not begun, by the provider's block numbers

	partial   map[int]*openCall // incomplete calls of layers' tools
	forwarded bool              // a call was forwarded to the client
	stop      *chat.Event
	usage     []chat.Event
}

// Begin must be called before the first event.
func (g *Gate) Begin() {
	g.next, g.numbers, g.partial, g.ahead = g.State.Blocks, map[int]int{}, map[int]*openCall{}, map[int][]chat.Event{}
}

// Close adds the finished round to the state of its request.
func (g *Gate) Close() {
	g.State.Done++
	g.State.Blocks, g.State.Texts = g.next, g.State.Texts || g.began
}

type openCall struct {
	call chat.ToolCall
	args []byte
}

// Read handles an event of the answer. It counts the usage of this answer: the client gets the sum over all rounds.
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
		g.forwardBlock(ctx, ev)
	case chat.ToolArgs:
		if c := g.partial[ev.Index]; c != nil {
			c.args = append(c.args, ev.Text...)
			return
		}
		g.forwardBlock(ctx, ev)
	case chat.BlockStop:
		if g.partial[ev.Index] != nil {
			g.complete(ctx, ev.Index)
			return
		}
		g.forwardBlock(ctx, ev)
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
		g.forwardBlock(ctx, ev)
	}
}

// extra forwards an event that only the answer's dialect has, unless the client's stream has another one. It does not count as content.
func (g *Gate) extra(ctx context.Context, ev *chat.Event) {
	switch r := g.State; {
	case r.Encoder != nil && r.Dialect != g.Dialect:
	case ev.IsAhead():
		g.ahead[ev.Index] = append(g.ahead[ev.Index], plain(ev))
	case g.opened:
		g.forwardBlock(ctx, ev)
	default:
		g.head = append(g.head, plain(ev))
	}
}

// plain returns a copy of an event without references to the decoder's buffers, and without the provider's bytes.
func plain(ev *chat.Event) chat.Event {
	e := *ev
	e.Text, e.Raw, e.Tail, e.ModelSpan, e.UsageChunk = bytes.Clone(ev.Text), nil, false, chat.Span{}, false
	return e
}

// keep adds an event to the complete answer.
func (g *Gate) keep(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the rest is content
	case chat.Error, chat.Other:
		return
	}
	g.Whole = append(g.Whole, plain(ev))
	*g.Held += int64(len(ev.Text))
}

// count stores a usage event: the first ones for the head, the others for the end.
func (g *Gate) count(ev *chat.Event) {
	if len(g.head) > 0 && !g.opened && !g.Count.Reported.Final {
		g.head = append(g.head, plain(ev))
		return
	}
	g.usage = append(g.usage, plain(ev))
}

// number returns the client's number of a block. A new block is opened, and early events about it are forwarded first.
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

// forwardBlock forwards an event, with the client's number of its block.
func (g *Gate) forwardBlock(ctx context.Context, ev *chat.Event) {
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

// separate forwards an empty line between the texts of two rounds.
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

// forward sends an event to the sink, unless that is over.
func (g *Gate) forward(ctx context.Context, ev *chat.Event) {
	if !g.Sink.IsOver() {
		g.Sink.Take(ctx, ev)
	}
}

// begin forwards the start of the answer, unless the client got that of an earlier round, and the retained content of earlier rounds.
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

// complete handles a complete call of a layer's tool: it is executed by the gateway, or translated to a call of the client's tool.
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

// end handles the end of the answer: the round or the request ends.
func (g *Gate) end(ctx context.Context) {
	for i := range g.Whole { // calls whose blocks have no end, in order
		if ev := &g.Whole[i]; ev.Kind == chat.ToolStart && g.partial[ev.Index] != nil {
			g.complete(ctx, ev.Index)
		}
	}
	if g.Again = g.needsRound(); g.Again {
		g.closeBlocks(ctx)
		return
	}
	if len(g.Calls) > 0 && !g.forwarded && g.State.Done == g.View.Rounds() {
		g.View.Request.Dropped = wire.AppendDegraded(slices.Clip(g.View.Request.Dropped), degradedRounds) // the slice belongs to the request of the previous round
	}
	g.begin(ctx)
	if g.stop != nil {
		if g.stop.Reason == chat.StopTool && !g.forwarded {
			g.stop.Reason = chat.StopEnd // the calls are not for the client
		}
		g.forward(ctx, g.stop)
	}
	g.forwardUsage(ctx)
	g.forward(ctx, &chat.Event{Kind: chat.End})
}

// degradedRounds is the entry in X-Bardo-Degraded if the model calls the gateway's tools in the last round.
const degradedRounds = "tool_rounds"

// needsRound reports whether the gateway executes the calls of a complete answer, and another round follows.
func (g *Gate) needsRound() bool {
	if len(g.Calls) == 0 || g.forwarded || g.Sink.IsOver() {
		return false
	}
	if g.stop != nil && g.stop.Reason != chat.StopTool && g.stop.Reason != chat.StopEnd {
		return false // truncated, or refused
	}
	return g.State.Done < g.View.Rounds()
}

// closeBlocks ends open blocks, since blocks of the next round follow.
func (g *Gate) closeBlocks(ctx context.Context) {
	for _, n := range g.open {
		g.forward(ctx, &chat.Event{Kind: chat.BlockStop, Index: n})
	}
	g.open = nil
}

// forwardUsage forwards the provider's usage events; after several rounds, the sum over all.
func (g *Gate) forwardUsage(ctx context.Context) {
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
