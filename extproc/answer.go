package extproc

import (
	"context"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// answer turns one attempt's answer into the client's bytes, and keeps count of it.
type answer struct {
	x      *exchange
	res    policy.Resolution
	spoken chat.Dialect // that the answer was given in
	dec    provider.Decoder
	stages []stage // what is read into the model's words before anybody sees them, in order; none for most answers
	enc    wire.Encoder
	shown  *shown // what becomes of its reasoning; nil: it goes out as it is
	stream bool

	out     []byte // encoded and not yet taken
	end     []byte // the terminator (stream) or the whole body (JSON), once the answer is complete
	content bool   // something of the answer was seen
	failed  *chat.ProviderError
	broken  error // a layer's, which looked at the answer
	ended   bool
	reason  chat.StopReason

	holds bool         // nothing is passed on before release
	held  []chat.Event // detached, while it holds
	heavy int64        // bytes of these

	form    *formed     // what it says, for the check of its form; nil: it has none
	unfit   bool        // it is not for others: its form is wrong
	counted bool        // its call is on the request's bill
	own     *chat.Usage // what its call used, where its events speak of all calls of the request

	id       string // the provider's own of the answer
	usage    chat.Usage
	outBytes int64 // of text, thoughts and arguments, to estimate what a cut stream delivered
	thoughts int64 // bytes of these alone
}

// feed decodes a chunk. Afterwards exactly one holds: the answer goes on, it failed, a layer broke it, or it ended.
func (a *answer) feed(ctx context.Context, chunk []byte, end bool) {
	events := a.dec.Decode(chunk, end)
	for i := range events {
		if a.over() {
			return
		}
		a.read(ctx, &events[i])
	}
}

// stage reads more into an answer than its provider's format says: thoughts and calls that stand in its text, the form that was
// asked for. The events that it returns, and their texts, are valid until the next call, as long as the event's own. One whose bytes no
// longer say what it means has none (Raw, Tail). Not safe for concurrent use.
type stage interface {
	Read(ev *chat.Event) []chat.Event
}

// read takes an event through the stages. What they hold back is content: the provider does answer.
func (a *answer) read(ctx context.Context, ev *chat.Event) {
	a.content = a.content || ev.Kind.IsContent()
	a.stage(ctx, ev, 0)
}

// stage takes an event through the stages from the n-th on.
func (a *answer) stage(ctx context.Context, ev *chat.Event, n int) {
	if n == len(a.stages) {
		a.hold(ctx, ev)
		return
	}
	events := a.stages[n].Read(ev)
	for i := range events {
		if a.over() {
			return
		}
		a.stage(ctx, &events[i], n+1)
	}
}

// hold keeps an event back, of an answer that the gateway looks at as a whole before anybody sees it.
func (a *answer) hold(ctx context.Context, ev *chat.Event) {
	if a.form != nil {
		a.form.note(ev)
	}
	if !a.holds {
		if a.form != nil && ev.Kind == chat.End {
			a.x.findLive(a)
		}
		a.pass(ctx, ev)
		return
	}
	if ev.Kind == chat.Error {
		a.failed = ev.Err
		return
	}
	a.count(ev)
	a.held = append(a.held, ev.Detached())
	a.heavy += int64(len(ev.Text) + len(ev.Raw))
	a.ended = ev.Kind == chat.End
}

// whole reports whether the client gets the answer in one go: it asked for one piece, or the gateway holds it back.
func (a *answer) whole() bool { return a.holds || !a.stream }

// release passes events on in the place of those that were held.
func (a *answer) release(ctx context.Context, events []chat.Event) {
	own := a.total(a.x.Request.InputTokens)
	a.own, a.holds, a.held, a.heavy, a.ended = &own, false, nil, 0, false
	for i := range events {
		if a.over() {
			return
		}
		a.pass(ctx, &events[i])
	}
}

func (a *answer) over() bool { return a.failed != nil || a.broken != nil || a.ended }

// pass shows an event to the layers that watch the answer, and takes what they make of it.
func (a *answer) pass(ctx context.Context, ev *chat.Event) {
	if !a.x.Watched() {
		a.take(ev)
		return
	}
	if ev.Kind == chat.End {
		a.x.Served = a.served()
		if (a.unfit || a.x.unverified()) && a.x.Cache != nil {
			a.x.Cache.Record(&chat.Event{Kind: chat.Error}) // nobody else shall get it
		}
	}
	events, err := a.x.Response(ctx, ev)
	a.broken = err
	for i := range events {
		if a.over() {
			return
		}
		a.take(&events[i])
	}
}

// served is who gave the answer, and what it took.
func (a *answer) served() *cache.Served {
	u, cost := a.x.owed(a)
	return &cache.Served{
		By: a.res, Spoken: a.spoken, Usage: u, Cost: cost, Degraded: a.x.lostAt(a.res.Provider), Schema: a.x.schemaWord(&a.res),
		Verified: a.x.verifiedWord(), Escalated: a.x.escalatedWord(),
	}
}

func (a *answer) take(ev *chat.Event) {
	switch ev.Kind {
	case chat.Error:
		a.failed = ev.Err
		return
	case chat.End:
		a.ended = true
		if a.shown != nil {
			a.shown.end(a, ev)
		}
		a.end = a.enc.Append(a.end, ev)
		return
	default:
	}
	a.count(ev)
	a.content = a.content || ev.Kind.IsContent()
	if a.shown == nil || a.shown.take(a, ev) {
		a.out = a.enc.Append(a.out, ev)
	}
}

// count keeps what an event says of the answer as a whole.
func (a *answer) count(ev *chat.Event) {
	switch ev.Kind {
	case chat.Start:
		a.id = ev.ID
	case chat.UsageInfo:
		a.usage.Merge(ev.Usage)
	case chat.Stop:
		a.reason = ev.Reason
	case chat.Thought:
		a.outBytes += int64(len(ev.Text))
		a.thoughts += int64(len(ev.Text))
	case chat.Text, chat.ToolArgs, chat.Refusal:
		a.outBytes += int64(len(ev.Text))
	case chat.Extra:
		a.tell(ev)
	case chat.Signature, chat.Redacted, chat.ToolStart, chat.BlockStop, chat.Other, chat.Error, chat.End:
	}
}

// tell keeps in which tier of service the provider says that it answered.
func (a *answer) tell(ev *chat.Event) {
	if ev.ID == chat.ServiceTier {
		if tier, ok := (jsonx.Value{Raw: ev.Text}).Str(); ok {
			a.usage.Tier = tier
		}
	}
}

// drain returns what is ready for the client. It is valid until the next feed.
func (a *answer) drain() []byte {
	b := a.out
	a.out = a.out[:0]
	return b
}

// bytesPerToken is the usual length of a token in bytes, for answers whose provider did not live to count them.
const bytesPerToken = 4

// total is the usage to bill. What the provider did not say is estimated from what passed.
func (a *answer) total(estimatedInput int64) chat.Usage {
	if a.own != nil {
		return *a.own
	}
	u := a.usage
	if u.TotalInput() == 0 {
		u.Input, u.Estimated = estimatedInput, true
	}
	if !u.Final {
		if n := (a.outBytes + bytesPerToken - 1) / bytesPerToken; n > u.Output {
			u.Output, u.Estimated = n, true
		}
	}
	if u.Reasoning == 0 && a.thoughts > 0 { // D-42
		u.Reasoning, u.ReasoningEstimated = reasoning.Estimate(a.thoughts, u.Output), true
	}
	return u
}
