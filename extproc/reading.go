package extproc

import (
	"cmp"
	"context"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

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

// answersCalls prepares an answer whose calls of layers' tools are answered inside the gateway. One that is sent as a whole, or must follow a schema, is
// held until its last round.
func (x *exchange) answersCalls(a *answer) {
	if x.Rounds() == 0 {
		return
	}
	r := &x.rounds
	a.gate = &rounds.Gate{View: &x.View, State: r, Dialect: a.dialect, Count: &a.count, Before: x.billedUsage, Held: &a.heldBytes, Sink: a}
	a.gate.Begin()
	a.holds = a.holds || !a.stream || a.form != nil
	if r.Encoder != nil {
		a.enc, a.reasoning = r.Encoder, r.Reasoning
	}
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
		a.gate.Read(ctx, ev)
		a.ended = a.ended || a.gate.Again
		return
	}
	a.hold(ctx, ev)
}

// billedUsage is the usage of all calls that are on the bill.
func (x *exchange) billedUsage() chat.Usage { return x.bill.Total().Usage }

// Take implements rounds.Sink.
func (a *answer) Take(ctx context.Context, ev *chat.Event) { a.hold(ctx, ev) }

// IsOver implements rounds.Sink.
func (a *answer) IsOver() bool { return a.over() }

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
		By: a.res, Dialect: a.dialect, Usage: t.Usage, Cost: t.Cost, Degraded: a.x.calls.Degraded(a.res.Provider), Schema: a.x.report.SchemaStatus(&a.res),
		Verified: a.x.report.VerifiedStatus(), Escalated: a.x.report.EscalatedStatus(),
	}
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

// asksAgain reports whether the answer is complete, and another round follows.
func (a *answer) asksAgain() bool { return a.gate != nil && a.gate.Again }

// sends reports whether there is anything to send of an answer.
func (a *answer) sends() bool {
	return a.gate == nil || len(a.out) > 0 || a.ended && !a.gate.Again
}

// Feed implements attempt.Sink.
func (a *answer) Feed(ctx context.Context, b []byte, end bool) { a.feed(ctx, b, end) }

// validateSent checks an answer that the client has but for its end.
func (x *exchange) validateSent(a *answer) {
	a.notCacheable = x.review.SetResult(a.form.Plan, x.review.Validate(a.form))
	x.review.EmitSchema()
}
