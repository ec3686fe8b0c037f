package reading

import (
	"cmp"
	"context"
	"slices"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// New returns the reader of a provider's answer to an attempt.
func New(r *report.Report, s *rounds.State, t *attempt.Attempt, status int, h header.List) *Answer {
	to := t.To
	p := r.Config.Provider(to.Provider)
	dialect := p.Adapter.Dialect(to, p.Endpoint, r.Request.Dialect)
	dec, stages := r.Calls.Decoder(t, status, h)
	a := &Answer{
		Report:    r,
		By:        to,
		Dialect:   dialect,
		dec:       dec,
		stages:    stages,
		Stream:    r.Request.Stream,
		Encoder:   newEncoder(t.View, to, dialect),
		Reasoning: newPresenter(r, &to, dialect),
	}
	if status/100 != 2 {
		return a
	}
	a.Count.Reported.Cost = t.Paid.Pico()
	if r.IsGateway(to.Provider) {
		r.Calls.Relayed(to.Provider, h.Get("x-bardo-degraded"))
	}
	if p.Adapter.Name() == cognition.Kind {
		a.Seen = cognition.Look(h)
	}
	if t.Plan != nil {
		a.Form, a.Holds = &review.Transcript{Plan: t.Plan}, r.Review.HoldsBack(t.Plan)
	}
	a.Proof = t.Proof
	a.Holds = a.Holds || r.Review.MayReplaceAnswer() || r.WholeAnswer || a.Proof != nil
	a.answersCalls(s)
	return a
}

// NewStored returns the writer of a stored answer.
func NewStored(r *report.Report, e *cache.Entry) *Answer {
	return &Answer{
		Report: r, By: e.By, Dialect: e.Dialect, Stream: r.Request.Stream, Encoder: newEncoder(r.View, e.By, e.Dialect), Reasoning: newPresenter(r, &e.By, e.Dialect),
	}
}

// newEncoder returns the encoder of an answer in the client's dialect; dialect is the provider's.
func newEncoder(v *request.View, by policy.Resolution, dialect chat.Dialect) wire.Encoder {
	same := dialect == v.Request.Dialect
	model := ""
	if by.Upstream != string(by.Model) || !same {
		model = string(by.Model)
	}
	return v.Dialect.NewEncoder(wire.Options{
		Same: same, Stream: v.Request.Stream, Model: model, RequestID: v.ID,
		ShowUsage: v.Request.StreamUsage, Created: v.Started.Unix(), MayChange: v.MayChange, Request: cmp.Or(v.Original, v.Request),
	})
}

// answersCalls prepares an answer whose calls of layers' tools are answered inside the gateway. An answer that is sent as a whole, or must follow a
// schema, is held until its last round.
func (a *Answer) answersCalls(s *rounds.State) {
	r := a.Report
	if r.Rounds() == 0 {
		return
	}
	before := func() chat.Usage { return r.Bill.Total().Usage }
	a.Gate = &rounds.Gate{View: r.View, State: s, Dialect: a.Dialect, Count: &a.Count, Before: before, Held: &a.HeldBytes, Sink: a}
	a.Gate.Begin()
	a.Holds = a.Holds || !a.Stream || a.Form != nil
	if s.Encoder != nil {
		a.Encoder, a.Reasoning = s.Encoder, s.Reasoning
	}
}

// Feed implements attempt.Sink: it decodes a chunk of the body. Afterwards exactly one holds: the answer continues, it failed, a layer failed on it,
// or it ended.
func (a *Answer) Feed(ctx context.Context, chunk []byte, end bool) {
	events := a.dec.Decode(chunk, end)
	if !a.Whole() {
		a.Out = slices.Grow(a.Out, len(chunk)) // about as long as the chunk
	}
	if a.Report.MayChange {
		chat.MarkCalls(events)
	}
	for i := range events {
		if a.IsOver() {
			return
		}
		a.read(ctx, &events[i])
	}
}

// read passes an event through the stages. Events that they hold back count as content, because the provider is answering.
func (a *Answer) read(ctx context.Context, ev *chat.Event) {
	a.Content = a.Content || ev.Kind.IsContent()
	switch ev.Kind { //nolint:exhaustive // the others are counted behind the stages
	case chat.UsageInfo:
		a.Count.Receive(ev.Usage)
	case chat.End:
		a.Count.Note(ev)
	}
	a.Report.Redact(ev)
	a.stage(ctx, ev, 0)
}

// stage passes an event through the stages from the n-th on.
func (a *Answer) stage(ctx context.Context, ev *chat.Event, n int) {
	if n == len(a.stages) {
		a.accept(ctx, ev)
		return
	}
	events := a.stages[n].Read(ev)
	for i := range events {
		if a.IsOver() {
			return
		}
		a.stage(ctx, &events[i], n+1)
	}
}

// accept processes an event that passed the stages.
func (a *Answer) accept(ctx context.Context, ev *chat.Event) {
	if a.Gate != nil {
		a.Gate.Read(ctx, ev)
		a.Ended = a.Ended || a.Gate.Again
		return
	}
	a.hold(ctx, ev)
}

// Take implements rounds.Sink.
func (a *Answer) Take(ctx context.Context, ev *chat.Event) { a.hold(ctx, ev) }

// hold keeps an event of an answer that is reviewed before it is sent; other events are passed on.
func (a *Answer) hold(ctx context.Context, ev *chat.Event) {
	if a.Form != nil {
		a.Form.Add(ev)
	}
	if !a.Holds {
		if a.Form != nil && ev.Kind == chat.End {
			a.validateSent()
		}
		a.Show(ctx, ev)
		return
	}
	if ev.Kind == chat.Error {
		a.fail(ev.Err)
		return
	}
	a.note(ev)
	a.Held = append(a.Held, ev.Detached())
	a.HeldBytes += int64(len(ev.Text) + len(ev.Raw))
	a.Ended = ev.Kind == chat.End
}

// Release passes events on instead of those that were held.
func (a *Answer) Release(ctx context.Context, events []chat.Event) {
	own := a.Total()
	a.ownUsage, a.Holds, a.Held, a.HeldBytes, a.Ended = &own, false, nil, 0, false
	for i := range events {
		if a.IsOver() {
			return
		}
		a.Show(ctx, &events[i])
	}
}

// Show passes an event to the layers that watch the answer, and encodes what they return. Its usage is counted before: layers may hold back what is
// billed.
func (a *Answer) Show(ctx context.Context, ev *chat.Event) {
	if ev.Kind != chat.Error && ev.Kind != chat.End {
		a.note(ev)
	}
	if !a.Report.Watched() {
		a.take(ev)
		return
	}
	if ev.Kind == chat.End {
		a.Report.Served = a.served()
		if (a.NotCacheable || a.Report.Review.Unverified()) && a.Report.Cache != nil {
			a.Report.Cache.Record(&chat.Event{Kind: chat.Error}) // marks it as not cacheable
		}
	}
	events, err := a.Report.Response(ctx, ev)
	a.Broken = err
	for i := range events {
		if a.IsOver() {
			return
		}
		a.take(&events[i])
	}
}

// served returns which candidate gave the answer, and its usage and cost.
func (a *Answer) served() *cache.Served {
	t := a.AnswersTotal()
	return &cache.Served{
		By: a.By, Dialect: a.Dialect, Usage: t.Usage, Cost: t.Cost, Degraded: a.Report.Calls.DegradedForOthers(a.By.Provider), Schema: a.Report.SchemaStatus(&a.By),
		Verified: a.Report.VerifiedStatus(), Escalated: a.Report.EscalatedStatus(),
	}
}

func (a *Answer) take(ev *chat.Event) {
	switch ev.Kind {
	case chat.Error:
		a.fail(ev.Err)
		return
	case chat.UsageInfo:
		if ev.Usage.Final {
			ev = a.complete(ev)
		}
	case chat.End:
		a.Ended = true
		a.Out = a.appendEstimate(a.Out)
		a.present(ev)
		a.attachReasoning()
		a.End = a.Encoder.Append(a.End, ev)
		return
	default:
	}
	a.Content, a.Passed = a.Content || ev.Kind.IsContent(), a.Passed || ev.Kind.IsContent()
	if a.present(ev) {
		a.Out = a.Encoder.Append(a.Out, ev)
	}
}

// NeedsRound reports whether the answer is complete, and another round follows.
func (a *Answer) NeedsRound() bool { return a.Gate != nil && a.Gate.Again }

// HasOutput reports whether any part of an answer is ready to be sent.
func (a *Answer) HasOutput() bool {
	return a.Gate == nil || len(a.Out) > 0 || a.Ended && !a.Gate.Again
}

// validateSent validates an answer of which only the end was not sent yet.
func (a *Answer) validateSent() {
	a.NotCacheable = a.Report.Review.SetResult(a.Form.Plan, a.Report.Review.Validate(a.Form))
	a.Report.Review.EmitSchema()
}
