package extproc

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
)

// Rounds: a layer may give the model tools of its own (pipeline.Caller). An answer that calls such a tool, and none of the client's, is not the end of
// the request: the layer answers the calls, and the same candidate is called again with the answer and the results behind its messages. The client sees one
// answer: the text and the thoughts of all rounds in their order, none of the layers' calls, and the usage of all calls.
//
// An answer with calls of both kinds ends the request: the client gets its own calls, and the others are dropped, since only the client can make the
// results of its tools. The model finds its history without them and may call again.

// rounds is the state of a request that may have several.
type rounds struct {
	done   int          // answers whose calls were answered inside the gateway
	last   *answer      // the latest of these; nil for none
	shown  []chat.Event // their content, for a client that has nothing yet
	texts  bool         // the client has, or will get, text of them
	blocks int          // numbers of content blocks that they use

	enc       wire.Encoder // that began the client's stream; nil while the client has nothing
	reasoning *render.Presenter
	dialect   chat.Dialect // of the provider whose answer began the stream
}

// gate separates the calls of layers' tools from the rest of an answer. It stands behind the stages, where calls in text are calls, and before the layers,
// which see what the client will get.
type gate struct {
	x *exchange
	a *answer

	head    []chat.Event // start and usage, held until there is content for the client
	opened  bool         // they were passed on
	whole   []chat.Event // the answer as the model gave it
	numbers map[int]int  // of blocks, by their numbers in the provider's answer
	open    []int        // blocks that have begun and not ended, by their new numbers
	next    int          // number of the next block
	began   bool         // text of this answer was passed on

	partial   map[int]*openCall // calls of layers' tools whose arguments are not complete
	calls     []chat.ToolCall   // those that are answered inside the gateway
	forwarded bool              // the client gets a call
	stop      *chat.Event
	usage     []chat.Event
	again     bool // the answer is complete, and another round follows
}

type openCall struct {
	call chat.ToolCall
	args []byte
}

// read takes an event of the answer. Usage is counted here: what is shown of it later may be that of several calls.
func (g *gate) read(ctx context.Context, ev *chat.Event) {
	g.a.count.Note(ev)
	g.keep(ev)
	switch ev.Kind {
	case chat.Start:
		g.head = append(g.head, plain(ev))
	case chat.UsageInfo:
		g.count(ev)
	case chat.ToolStart:
		if g.x.IsReserved(ev.Tool.Name) {
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
		g.a.hold(ctx, ev)
	case chat.Other: // only meaningful beside the provider's own bytes
	case chat.Text, chat.Thought, chat.Signature, chat.Redacted, chat.Refusal:
		g.pass(ctx, ev)
	}
}

// extra passes on what only the answer's own dialect has, unless another one began the client's stream. It is no content.
func (g *gate) extra(ctx context.Context, ev *chat.Event) {
	switch r := &g.x.rounds; {
	case r.enc != nil && r.dialect != g.a.dialect:
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
func (g *gate) keep(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the rest is content
	case chat.Error, chat.Other:
		return
	}
	g.whole = append(g.whole, plain(ev))
	g.a.heldBytes += int64(len(ev.Text))
}

// count keeps a report of usage: the first ones belong to the head, the others come at the end.
func (g *gate) count(ev *chat.Event) {
	if len(g.head) > 0 && !g.opened && !g.a.count.Reported.Final {
		g.head = append(g.head, plain(ev))
		return
	}
	g.usage = append(g.usage, plain(ev))
}

// number is the new number of a block, which is opened if it has none.
func (g *gate) number(index int) int {
	n, ok := g.numbers[index]
	if !ok {
		n = g.next
		g.next++
		g.numbers[index] = n
		g.open = append(g.open, n)
	}
	return n
}

// pass passes an event on, with the new number of its block.
func (g *gate) pass(ctx context.Context, ev *chat.Event) {
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
		e.Index = g.number(ev.Index)
		g.separate(ctx, &e)
	default:
		e.Index = g.number(ev.Index)
	}
	g.forward(ctx, &e)
}

// separate puts an empty line between the texts of two rounds.
func (g *gate) separate(ctx context.Context, first *chat.Event) {
	if !g.began && g.x.rounds.texts && len(first.Text) > 0 {
		line := *first
		line.Text = []byte("\n\n")
		g.forward(ctx, &line)
	}
	g.began = g.began || len(first.Text) > 0
}

func (g *gate) close(number int) {
	for i, n := range g.open {
		if n == number {
			g.open = append(g.open[:i], g.open[i+1:]...)
			return
		}
	}
}

// forward passes an event on as it is.
func (g *gate) forward(ctx context.Context, ev *chat.Event) {
	if !g.a.over() {
		g.a.hold(ctx, ev)
	}
}

// begin passes on the start of the answer, unless the client has it from an earlier round, and what it has not got yet of those.
func (g *gate) begin(ctx context.Context) {
	if g.opened {
		return
	}
	g.opened = true
	r := &g.x.rounds
	if r.enc != nil {
		return
	}
	for i := range g.head {
		g.forward(ctx, &g.head[i])
	}
	for i := range r.shown {
		g.forward(ctx, &r.shown[i])
	}
}

// complete decides about a call of a layer's tool whose arguments are complete.
func (g *gate) complete(ctx context.Context, index int) {
	c := g.partial[index]
	delete(g.partial, index)
	if c.call.Args = string(bytes.TrimSpace(c.args)); c.call.Args == "" {
		c.call.Args = "{}"
	}
	own, ok := g.x.TranslateCall(&c.call)
	if !ok {
		g.calls = append(g.calls, c.call)
		return
	}
	g.forwarded = true
	g.begin(ctx)
	n := g.number(index)
	g.forward(ctx, &chat.Event{Kind: chat.ToolStart, Index: n, Tool: chat.ToolCall{ID: own.ID, Name: own.Name}})
	g.forward(ctx, &chat.Event{Kind: chat.ToolArgs, Index: n, Text: []byte(own.Args)})
	g.forward(ctx, &chat.Event{Kind: chat.BlockStop, Index: n})
	g.close(n)
}

// end ends the answer, or the round.
func (g *gate) end(ctx context.Context) {
	for i := range g.whole { // calls whose blocks did not end, in their order
		if ev := &g.whole[i]; ev.Kind == chat.ToolStart && g.partial[ev.Index] != nil {
			g.complete(ctx, ev.Index)
		}
	}
	if g.again = g.mayGoOn(); g.again {
		g.closeBlocks(ctx)
		g.a.ended = true
		return
	}
	if len(g.calls) > 0 && !g.forwarded && g.x.rounds.done == g.x.Rounds() {
		g.x.Request.Dropped = wire.AppendDegraded(slices.Clip(g.x.Request.Dropped), degradedRounds) // the request is of the round before
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
func (g *gate) mayGoOn() bool {
	if len(g.calls) == 0 || g.forwarded || g.a.over() {
		return false
	}
	if g.stop != nil && g.stop.Reason != chat.StopTool && g.stop.Reason != chat.StopEnd {
		return false // it was cut off, or refused
	}
	return g.x.rounds.done < g.x.Rounds()
}

// closeBlocks ends the blocks that the provider left open: others follow in the next round.
func (g *gate) closeBlocks(ctx context.Context) {
	for _, n := range g.open {
		g.forward(ctx, &chat.Event{Kind: chat.BlockStop, Index: n})
	}
	g.open = nil
}

// passUsage passes on what the provider reported; after several rounds, the usage of all of them.
func (g *gate) passUsage(ctx context.Context) {
	if g.x.rounds.done == 0 {
		for i := range g.usage {
			g.forward(ctx, &g.usage[i])
		}
		return
	}
	all := meter.Sum(g.a.count.Total(g.x.Request.InputTokens), g.x.bill.Total().Usage)
	all.Final = true
	g.forward(ctx, &chat.Event{Kind: chat.UsageInfo, Usage: all})
}

// nextRound bills a complete answer whose calls are answered inside the gateway, and puts both into the request. The error is a fault.
func (s *drivenStream) nextRound(a *answer) error {
	x := s.x
	next, err := x.continued(a)
	if err != nil {
		return fmt.Errorf("answering calls of the gateway's own tools: %w", err)
	}
	x.charge(a)
	x.noteAnswered(a, outcomeRound)
	x.trace.Attempts[len(x.trace.Attempts)-1].Reason = "the model called tools of the gateway"
	x.decided(upstream.Decision{Move: upstream.ToolRound, Why: "the model gets the results of its calls"})
	x.Request = next
	r := &x.rounds
	r.done++
	r.last, r.blocks, r.texts = a, a.gate.next, r.texts || a.gate.began
	switch {
	case a.whole():
		r.shown = contentOf(a)
		r.texts = r.texts && a.form == nil
	case s.content && r.enc == nil:
		r.enc, r.reasoning, r.dialect = a.enc, a.reasoning, a.dialect
	}
	return nil
}

// outcomeRound is the outcome, in the request's record, of a call whose answer was answered inside the gateway.
const outcomeRound = "tool_round"

// contentOf is what the client gets of a held answer, and of those before it, once the last round is over: of an answer with a schema no text, which is
// not a part of what the schema is for.
func contentOf(a *answer) (out []chat.Event) {
	for i := range a.held {
		ev := &a.held[i]
		switch ev.Kind { //nolint:exhaustive // the rest is content
		case chat.Start, chat.UsageInfo:
			continue
		case chat.Text, chat.Refusal:
			if a.form != nil {
				continue
			}
		}
		out = append(out, *ev)
	}
	a.held = nil
	return out
}

// continued is the request with an answer and the results of its calls behind the messages, in the client's own format: what any candidate is called
// with next, as if the client had sent it.
func (x *exchange) continued(a *answer) (*chat.Request, error) {
	enc := x.Dialect.NewEncoder(wire.Options{Same: a.dialect == x.Request.Dialect, RequestID: x.ID, Created: x.Started.Unix(), Request: x.Request})
	var body []byte
	for i := range a.gate.whole {
		body = enc.Append(body, &a.gate.whole[i])
	}
	a.gate.whole = nil
	calls := a.gate.calls
	results := make([]wire.CallResult, len(calls))
	for i, res := range x.RoundResults(calls) {
		if !res.IsError {
			x.gw.Metrics.LayerCalled(res.Layer)
		}
		x.roundsOf = cmp.Or(x.roundsOf, res.Layer)
		results[i] = wire.CallResult{ID: calls[i].ID, Name: calls[i].Name, Text: res.Text, IsError: res.IsError}
	}
	return x.Dialect.(wire.Continuer).Continue(x.Request, body, results) //nolint:forcetypeassert // see mayCall
}

// rounds calls one candidate, again for each round. The answer is complete where there is neither a failure nor an error; the error is that the client has
// disconnected.
func (s *drivenStream) rounds(ctx context.Context, call func() *attempt.Attempt) (a *answer, f *upstream.Failure, err error) {
	for {
		s.sending = false
		if a, f, err = s.listen(ctx, call(), s.deliver); f != nil || err != nil || !a.asksAgain() {
			return a, f, err
		}
		if err := s.nextRound(a); err != nil {
			return a, &upstream.Failure{Provider: a.res.Provider, Kind: upstream.NotEncoded, Cause: err}, nil //nolint:nilerr // the failure has it
		}
	}
}
