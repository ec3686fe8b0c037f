package extproc

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
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
	count   meter.Count // what it took so far
	began   time.Time   // its call went out

	holds bool         // nothing is passed on before release
	held  []chat.Event // detached, while it holds
	heavy int64        // bytes of these

	form    *formed     // what it says, for the check of its form; nil: it has none
	unfit   bool        // it is not for others: its form is wrong
	counted bool        // its call is on the request's bill
	noted   bool        // that its provider answered was reported
	beside  bool        // it was gathered beside the call under way
	own     *chat.Usage // what its call used, where its events speak of all calls of the request

	id   string   // the provider's own of the answer
	made []string // ids of what the provider stored, or gave access to, as it answered
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
	a.x.redact(ev)
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
		a.fail(ev.Err)
		return
	}
	a.note(ev)
	a.held = append(a.held, ev.Detached())
	a.heavy += int64(len(ev.Text) + len(ev.Raw))
	a.ended = ev.Kind == chat.End
}

// whole reports whether the client gets the answer in one go: it asked for one piece, or the gateway holds it back.
func (a *answer) whole() bool { return a.holds || !a.stream }

// release passes events on in the place of those that were held.
func (a *answer) release(ctx context.Context, events []chat.Event) {
	own := a.total()
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
	t := a.x.owed(a)
	return &cache.Served{
		By: a.res, Spoken: a.spoken, Usage: t.Usage, Cost: t.Cost, Degraded: a.x.lostAt(a.res.Provider), Schema: a.x.schemaWord(&a.res),
		Verified: a.x.verifiedWord(), Escalated: a.x.escalatedWord(),
	}
}

// fail notes what the provider failed by, and in which format it said so.
func (a *answer) fail(e *chat.ProviderError) {
	said := *e
	said.Dialect = a.spoken
	a.failed = &said
}

func (a *answer) take(ev *chat.Event) {
	switch ev.Kind {
	case chat.Error:
		a.fail(ev.Err)
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
	a.note(ev)
	a.content = a.content || ev.Kind.IsContent()
	if a.shown == nil || a.shown.take(a, ev) {
		a.out = a.enc.Append(a.out, ev)
	}
}

// note keeps what an event says of the answer as a whole.
func (a *answer) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others are counted alone
	case chat.Start:
		a.id = ev.ID
	case chat.Extra:
		a.names(ev)
	}
	a.count.Note(ev)
}

// drain returns what is ready for the client. It is valid until the next feed.
func (a *answer) drain() []byte {
	b := a.out
	a.out = a.out[:0]
	return b
}

// total is the usage to bill. What the provider did not say is estimated from what passed.
func (a *answer) total() chat.Usage {
	if a.own != nil {
		return *a.own
	}
	return a.count.Total(a.x.Request.InputTokens)
}
