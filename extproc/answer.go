package extproc

import (
	"cmp"
	"context"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// answer turns one attempt's answer into the client's bytes, and counts its usage. Owned by the goroutine that makes the attempt.
type answer struct {
	x         *exchange
	res       policy.Resolution
	dialect   chat.Dialect // of the provider
	dec       provider.Decoder
	stages    []attempt.Stage // that read reasoning, tool calls and schema answers out of the text, in order; none for most answers
	enc       wire.Encoder
	reasoning *render.Presenter // nil: its reasoning is sent as it came
	stream    bool

	out     []byte // encoded, not sent yet
	end     []byte // the terminator (stream) or the whole body (JSON), once the answer is complete
	content bool   // a part of the answer came
	passed  bool   // a part of it came through the layers
	failed  *chat.ProviderError
	broken  error // a layer failed on it
	ended   bool
	count   meter.Count // the usage so far
	began   time.Time   // when its call was sent

	heldBack
	gate *gate // of calls that are answered inside the gateway; nil for a request without such tools

	form         *review.Transcript // of its text, for validation; nil: it has no schema
	notCacheable bool               // it is invalid, or another call may answer better
	counted      bool               // its call is on the request's bill
	noted        bool               // the provider's success was reported
	parallel     bool               // of a side call
	ownUsage     *chat.Usage        // of its own call, where its events show the usage of all calls of the request

	id        string   // the provider's id of the answer
	storedIDs []string // ids of what the provider stored, or gave access to, as it answered
}

// heldBack is what of an answer is kept until it was reviewed.
type heldBack struct {
	holds     bool         // nothing is sent before release
	held      []chat.Event // the events, detached from the decoder's buffers
	heldBytes int64        // bytes of these
}

// feed decodes a piece of the body. Afterwards exactly one holds: the answer continues, it failed, a layer failed on it, or it ended.
func (a *answer) feed(ctx context.Context, chunk []byte, end bool) {
	events := a.dec.Decode(chunk, end)
	if a.x.MayChange {
		chat.MarkCalls(events)
	}
	for i := range events {
		if a.over() {
			return
		}
		a.read(ctx, &events[i])
	}
}

// read passes an event through the stages. What they hold back counts as content: the provider does answer.
func (a *answer) read(ctx context.Context, ev *chat.Event) {
	a.content = a.content || ev.Kind.IsContent()
	a.x.Redact(ev)
	a.stage(ctx, ev, 0)
}

// stage passes an event through the stages from the n-th on.
func (a *answer) stage(ctx context.Context, ev *chat.Event, n int) {
	if n == len(a.stages) {
		a.arrive(ctx, ev)
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

// arrive takes an event that the stages let pass.
func (a *answer) arrive(ctx context.Context, ev *chat.Event) {
	if a.gate != nil {
		a.gate.read(ctx, ev)
		return
	}
	a.hold(ctx, ev)
}

// hold keeps an event of an answer that is reviewed before it is sent; any other event is passed on.
func (a *answer) hold(ctx context.Context, ev *chat.Event) {
	if a.form != nil {
		a.form.Add(ev)
	}
	if !a.holds {
		if a.form != nil && ev.Kind == chat.End {
			a.x.validateSent(a)
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
	a.heldBytes += int64(len(ev.Text) + len(ev.Raw))
	a.ended = ev.Kind == chat.End
}

// whole reports whether the answer is sent as a whole: the client does not stream, or it is held back.
func (a *answer) whole() bool { return a.holds || !a.stream }

// release passes events on in place of those that were held.
func (a *answer) release(ctx context.Context, events []chat.Event) {
	own := a.total()
	a.ownUsage, a.holds, a.held, a.heldBytes, a.ended = &own, false, nil, 0, false
	for i := range events {
		if a.over() {
			return
		}
		a.pass(ctx, &events[i])
	}
}

func (a *answer) over() bool { return a.failed != nil || a.broken != nil || a.ended }

// pass shows an event to the layers that watch the answer, and encodes what they return. What it takes is noted before: layers may keep back what is billed.
func (a *answer) pass(ctx context.Context, ev *chat.Event) {
	if ev.Kind != chat.Error && ev.Kind != chat.End {
		a.note(ev)
	}
	if !a.x.Watched() {
		a.take(ev)
		return
	}
	if ev.Kind == chat.End {
		a.x.Served = a.served()
		if (a.notCacheable || a.x.review.Unverified()) && a.x.Cache != nil {
			a.x.Cache.Record(&chat.Event{Kind: chat.Error}) // it is not cached
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

// served is which candidate gave the answer, and its usage and cost.
func (a *answer) served() *cache.Served {
	t := a.x.answersWith(a)
	return &cache.Served{
		By: a.res, Dialect: a.dialect, Usage: t.Usage, Cost: t.Cost, Degraded: a.x.calls.Degraded(a.res.Provider), Schema: a.x.schemaStatus(&a.res),
		Verified: a.x.verifiedStatus(), Escalated: a.x.escalatedStatus(),
	}
}

// fail notes the provider's error, and its dialect.
func (a *answer) fail(e *chat.ProviderError) {
	failed := *e
	failed.Dialect = a.dialect
	a.failed = &failed
}

func (a *answer) take(ev *chat.Event) {
	switch ev.Kind {
	case chat.Error:
		a.fail(ev.Err)
		return
	case chat.End:
		a.ended = true
		a.present(ev)
		a.attachReasoning()
		a.end = a.enc.Append(a.end, ev)
		return
	default:
	}
	a.content, a.passed = a.content || ev.Kind.IsContent(), a.passed || ev.Kind.IsContent()
	if a.present(ev) {
		a.out = a.enc.Append(a.out, ev)
	}
}

// note keeps what an event tells about the whole answer: usage, ids.
func (a *answer) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others are counted alone
	case chat.Start:
		a.id = ev.ID
	case chat.Extra:
		a.names(ev)
	}
	if a.gate == nil { // it counts by itself
		a.count.Note(ev)
	}
}

// drain returns the encoded bytes that were not sent yet. They are valid until the next feed.
func (a *answer) drain() []byte {
	b := a.out
	a.out = a.out[:0]
	return b
}

// newAnswer prepares to read a provider's answer for this exchange's client.
func (x *exchange) newAnswer(t *attempt.Attempt, status int, h header.List) *answer {
	to := t.To
	p := x.Config.Providers[to.Provider]
	dialect := p.Adapter.Dialect(to, p.Endpoint, x.Request.Dialect)
	dec, stages := x.calls.Decoder(t, status, h)
	a := &answer{
		x:         x,
		res:       to,
		dialect:   dialect,
		dec:       dec,
		stages:    stages,
		stream:    x.Request.Stream,
		enc:       newEncoder(t.View, to, dialect),
		reasoning: x.newPresenter(&to, dialect),
	}
	if status/100 == 2 && t.Plan != nil {
		a.form, a.holds = &review.Transcript{Plan: t.Plan}, x.review.HoldsBack(t.Plan)
	}
	a.holds = a.holds || status/100 == 2 && (x.review.MayReplaceAnswer() || x.WholeAnswer)
	if status/100 == 2 {
		x.answersCalls(a)
	}
	return a
}

// newEncoder writes an answer in the client's dialect; dialect is the provider's.
func newEncoder(v *request.View, by policy.Resolution, dialect chat.Dialect) wire.Encoder {
	same := dialect == v.Request.Dialect
	model := ""
	if by.Upstream != string(by.Model) || !same {
		model = string(by.Model)
	}
	return v.Dialect.NewEncoder(wire.Options{
		Same: same, Stream: v.Request.Stream, Model: model, RequestID: v.ID,
		ShowUsage: v.Request.StreamUsage, Created: v.Started.Unix(), MayChange: v.MayChange, Request: cmp.Or(v.Asked, v.Request),
	})
}

// names notes the ids of stored resources in members that only the answer's own format has.
func (a *answer) names(ev *chat.Event) {
	if len(ev.Text) == 0 || a.dialect != a.x.Request.Dialect {
		return
	}
	switch ev.Text[0] {
	case '"':
		if ev.ID == itemID {
			a.storedIDs = stored.AppendID(a.storedIDs, ev.Text)
		}
	case '{':
		own := a.dialect == chat.Responses || ev.ID == "container" || ev.ID == "audio"
		a.storedIDs = append(a.storedIDs, stored.IDs(ev.Text, own)...)
	}
}

// itemID is the extra that names an item of a response.
const itemID = "item_id"
