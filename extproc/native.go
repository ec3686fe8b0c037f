package extproc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/buffers"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// The native path, for answers that are not streamed: Envoy makes the calls and fails over by itself. The gateway encodes the first attempt, and
// reads, meters and encodes the answer; the streams of Envoy's retries encode the later attempts, from the exchange.

// forwardViaEnvoy serves a request on the native path.
func (x *exchange) forwardViaEnvoy(ctx context.Context) error {
	defer x.gw.exchanges.Remove(x.ID)
	if err := x.sendFirst(); err != nil {
		return err
	}
	n := &nativeAnswer{x: x}
	for {
		p, err := x.client.Next()
		if err != nil {
			n.billInterrupted()
			return err
		}
		if done, err := n.take(ctx, p); done || err != nil {
			return err
		}
	}
}

// sendFirst forwards the first attempt to Envoy. Its buffer is released when Forward returns: later attempts are encoded anew.
func (x *exchange) sendFirst() error {
	buf := buffers.Get(x.body.Len() + encodingOverhead)
	defer buffers.Put(buf)
	call, plan, err := x.firstCall((*buf)[:0], attempt.NewPlan(&x.View))
	if err != nil {
		return err
	}
	*buf = call.Body // it may have grown
	x.native.Plan = plan
	x.gw.exchanges.Add(x.ID, x) // from here on the streams of retries may look it up
	x.trace.StartFirstAttempt(x.Arrived, x.Waited)
	set, remove := call.Headers(x.Head.Header)
	x.bill.Begin(&plan[0], x.trace.AttemptStarted)
	return x.client.Forward(stream.Forward{
		Set: plan.Headers(set, &x.View), Remove: append(remove, x.Head.Forged...), Body: call.Body, Exchange: x.ID, Clusters: plan.Clusters(&x.View),
	})
}

// encodingOverhead is, in bytes, how much longer than the client's body an encoded request usually is at most.
const encodingOverhead = 1 << 10

// firstCall encodes the first attempt that can be encoded, and drops the candidates before it. The error is the first candidate's.
func (x *exchange) firstCall(buf []byte, plan attempt.Plan) (attempt.Call, attempt.Plan, error) {
	var first error
	for i, to := range plan {
		call, err := x.encode(buf, &to)
		if err == nil {
			return call, plan[i:], nil
		}
		if first == nil {
			first = err
		}
	}
	return attempt.Call{}, nil, first
}

// Attempt implements stream.Handler: it encodes an attempt for a retry cluster.
func (g *Gateway) Attempt(a *stream.Attempt) (stream.AttemptRequest, error) {
	x := g.exchanges.Get(a.Exchange)
	if x == nil {
		return stream.AttemptRequest{}, fmt.Errorf("no exchange %q", a.Exchange)
	}
	if err := x.native.Check(&x.View, a.Cluster, a.Number); err != nil {
		return stream.AttemptRequest{}, err
	}
	to := x.native.At(a.Number)
	call, err := x.encodeForRetry(&to)
	if err != nil {
		x.native.SetUnwritten(&attempt.Unwritten{Number: a.Number, Why: err})
		return stream.AttemptRequest{}, err
	}
	x.native.Retried(a.Number)
	set, remove := call.Headers(a.Header)
	return stream.AttemptRequest{Set: set, Remove: remove, Body: call.Body}, nil
}

// billInterrupted bills an exchange that ended without an answer: the client disconnected, or the provider's error broke off and Envoy answered. A
// refused call is not billed.
func (n *nativeAnswer) billInterrupted() {
	if n.head != nil && n.head.Status/100 != 2 {
		n.x.bill.EndCall()
		return
	}
	n.x.billInFlight(0)
}

// billInFlight adds Envoy's attempt in flight to the bill: attempt n (from 1), or the latest for 0.
func (x *exchange) billInFlight(n int) {
	latest, at := x.native.Latest()
	if at.IsZero() || n == 1 {
		return
	}
	if n == 0 {
		n = latest
	}
	to := x.native.At(n)
	x.bill.Begin(&to, at)
}

// nativeAnswer reads the answer that Envoy forwards, and writes it in the client's format.
type nativeAnswer struct {
	x    *exchange
	head *stream.AnswerHead
	to   policy.Resolution
	a    *reading.Answer
	size int

	earlier []*upstream.Failure // of the attempts before this one
}

// take handles one piece; done is true once the client has the whole answer.
func (n *nativeAnswer) take(ctx context.Context, p stream.Piece) (done bool, err error) {
	if p.Head != nil {
		if done, err := n.begin(ctx, p.Head); done || err != nil {
			return done, err
		}
	}
	if n.head == nil {
		return false, errors.New("a body came before its head")
	}
	n.x.client.Turn()
	n.a.Feed(ctx, p.Body, p.End)
	switch {
	case n.head.Status/100 != 2:
		return n.errorBody(ctx, p)
	case n.a.RefusedBy() != nil:
		return true, n.x.client.Leave(func() error { return n.refuseAnswer(ctx, n.a, n.a.RefusedBy()) })
	case n.a.Fails() != nil:
		return n.fail(ctx, p)
	case !n.a.Ended:
		return false, nil
	}
	if n.x.outcome.SettlesSlowly(n.a) {
		return true, n.x.client.Leave(func() error { return n.whole(ctx) })
	}
	return true, n.whole(ctx)
}

// begin reads the answer's head: which attempt answered, and why the earlier ones failed.
func (n *nativeAnswer) begin(ctx context.Context, h *stream.AnswerHead) (done bool, err error) {
	unwritten := n.x.native.Unwritten()
	if unwritten != nil {
		h.Attempts = unwritten.Number
	}
	n.head, n.to = h, n.x.native.At(h.Attempts)
	var fs []*upstream.Failure
	for i := 1; i < h.Attempts; i++ {
		to := n.x.native.At(i)
		f := n.x.native.Earlier(i, h.Outcome(i))
		n.x.trace.AttemptEnded = n.x.native.Began(i + 1)
		n.x.outcome.RecordFailed(to, f)
		n.x.outcome.RecordDecision(n.x.native.Again(i))
		fs = append(fs, f)
	}
	if unwritten != nil && attempt.IsPanic(unwritten.Why) {
		return true, n.refuse(fault.From(unwritten.Why))
	}
	if h.Details != "" && h.Details != "via_upstream" {
		f := upstream.Local(n.to.Provider, h.Status, h.Details)
		if unwritten != nil {
			f = &upstream.Failure{Provider: n.to.Provider, Kind: upstream.NotEncoded, Cause: unwritten.Why}
		}
		n.x.outcome.RecordFailed(n.to, f)
		n.x.outcome.RecordDecision(upstream.Decision{Why: "Envoy had no attempt left that may do better"})
		return true, n.giveUp(ctx, append(fs, f))
	}
	if err := n.x.native.Check(&n.x.View, h.Cluster, h.Attempts); err != nil {
		f := &upstream.Failure{Provider: n.to.Provider, Kind: upstream.NotEncoded, Cause: err}
		n.x.outcome.RecordFailed(n.to, f)
		n.x.outcome.RecordDecision(upstream.Decision{Why: "Envoy called another provider than was planned"})
		return true, n.giveUp(ctx, []*upstream.Failure{f})
	}
	n.earlier = fs
	n.x.billInFlight(h.Attempts)
	n.a = reading.New(&n.x.report, &n.x.rounds, n.x.nextAttempt(&n.to), h.Status, h.Header)
	_, n.a.Began = n.x.bill.InFlight()
	if h.Status/100 == 2 {
		n.x.outcome.Current = n.a
		return false, nil
	}
	if h.Status < http.StatusOK { // such a status has no body
		return n.errorBody(ctx, stream.Piece{End: true})
	}
	return false, nil
}

// errorBody waits for the end of a refused attempt's body, then retries without what was refused, or answers with an error.
func (n *nativeAnswer) errorBody(ctx context.Context, p stream.Piece) (done bool, err error) {
	if !n.discardBody(p) {
		return false, nil
	}
	f := upstream.Stated(n.to.Provider, n.a.Refusal(n.head.Status))
	n.x.outcome.RecordFailed(n.to, f)
	if !p.End {
		return true, n.stop(ctx, f)
	}
	again, ok := n.x.retryWithout(n.to, f)
	return true, n.afterFailure(ctx, upstream.State{Failure: f, Candidates: len(n.x.native.Plan), Amendable: ok, Once: true}, again)
}

// fail waits for the end of an answer that turned out to be an error or unreadable, then calls the candidate that Envoy would have called next:
// nothing of the answer was sent.
func (n *nativeAnswer) fail(ctx context.Context, p stream.Piece) (done bool, err error) {
	if !n.discardBody(p) {
		return false, nil
	}
	f := n.a.Fails()
	n.x.outcome.RecordFailed(n.to, f)
	n.x.outcome.Current = nil
	if !p.End {
		return true, n.stop(ctx, f)
	}
	return true, n.afterFailure(ctx, upstream.State{Failure: f, Candidates: len(n.x.Order), Once: len(n.x.Order) > 1}, n.to)
}

// discardBody counts a piece of a discarded body, and reports whether to stop waiting for more of it.
func (n *nativeAnswer) discardBody(p stream.Piece) bool {
	n.size += len(p.Body)
	return p.End || n.size >= attempt.MaxErrorBody
}

// stop ends a request whose attempt failed while its answer still arrives.
func (n *nativeAnswer) stop(ctx context.Context, f *upstream.Failure) error {
	n.x.outcome.RecordDecision(upstream.Decision{Why: "the provider's answer is too long to wait for its end"})
	return n.giveUp(ctx, append(n.earlier, f))
}

// afterFailure decides what follows an attempt whose answer Envoy has passed on, and does it. again is the candidate without what it refused.
func (n *nativeAnswer) afterFailure(ctx context.Context, s upstream.State, again policy.Resolution) error {
	after := n.x.native.After(n.head.Attempts, n.to.Provider)
	s.Failures, s.MaxRetries, s.Left = n.head.Attempts, n.x.Config.MaxRetries, len(after)
	d := upstream.Next(&s)
	n.x.outcome.RecordDecision(d)
	fs := n.earlier
	switch d.Move {
	case upstream.Amend:
		after = append([]policy.Resolution{again}, after...)
	case upstream.Repeat:
		after, fs = []policy.Resolution{again}, append(fs, s.Failure)
	case upstream.Advance:
		fs = append(fs, s.Failure)
	default:
		return n.giveUp(ctx, append(fs, s.Failure))
	}
	return n.x.client.Leave(func() error { return n.callRest(ctx, after, fs) })
}

// giveUp answers a request whose candidates all failed: with a stale stored answer, or an error. Nothing was sent before.
func (n *nativeAnswer) giveUp(ctx context.Context, fs []*upstream.Failure) error {
	e := n.x.staleFallback(ctx, fs)
	if e == nil {
		return n.refuse(n.x.outcome.NoAnswer(fs))
	}
	r, err := n.x.storedReply(ctx, n.x.useStored(e, record.CacheStale))
	if err != nil {
		return n.refuse(fault.From(err))
	}
	return n.x.client.Reply(r)
}

// refuse answers with an error. Nothing was sent before.
func (n *nativeAnswer) refuse(f *fault.Fault) error {
	n.x.outcome.RecordRefused(f)
	return n.x.client.Reply(n.x.report.Error(f))
}

// whole settles a complete answer and sends it.
func (n *nativeAnswer) whole(ctx context.Context) error {
	n.x.client.Turn()
	sum, err := n.x.outcome.Settle(ctx, n.a, record.OK)
	if err != nil {
		return n.refuse(fault.From(err))
	}
	n.x.client.Turn()
	body := n.a.End
	set := append(sum.Headers(n.x.answerHeaders(n.to)), header.Field{Name: "content-type", Value: header.JSON}, header.Field{Name: "content-length", Value: strconv.Itoa(len(body))})
	return n.x.client.Answer(stream.Reply{Status: http.StatusOK, Header: set, Body: body}, removedHeaders(n.head.Header, set))
}

// removedHeaders lists the provider's headers that are removed from the answer: all but those that are set anew.
func removedHeaders(h, set header.List) []string {
	out := make([]string, 0, len(h))
	for _, f := range h {
		if f.Name != "" && f.Name[0] != ':' && !set.Has(f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// callRest calls candidates one after the other, after an answer that Envoy does not retry: a refusal, or a 200 that is no valid answer. The gateway
// makes these calls through the egress listener, as on the driven path. before are the failures so far.
func (n *nativeAnswer) callRest(client context.Context, rest []policy.Resolution, before []*upstream.Failure) error {
	x := n.x
	left := max(x.TotalTime()-time.Since(x.Arrived), time.Second)
	ctx, cancel := context.WithTimeoutCause(client, left, upstream.ErrTotalTimeout)
	defer cancel()
	seq := upstream.Sequence{Candidates: rest, Failures: before, Calls: x.trace.AttemptCount(), MaxRetries: x.Config.MaxRetries, Once: true}
	for next := seq.Candidate(); next != nil; next = seq.Candidate() {
		a, f, err := x.fetch(ctx, next)
		if err != nil {
			return err
		}
		if f == nil {
			n.a, n.to = a, *next
			return n.whole(client)
		}
		if r := reading.RefusalOf(f); r != nil {
			return n.refuseAnswer(client, a, r)
		}
		x.outcome.RecordFailed(*next, f)
		again, ok := x.retryWithout(*next, f)
		x.outcome.RecordDecision(seq.Failed(upstream.State{Failure: f, Over: ctx.Err() != nil, Amendable: ok}, again))
	}
	return n.giveUp(client, seq.Failures)
}

// refuseAnswer ends a request whose answer a layer refused. Nothing was sent before.
func (n *nativeAnswer) refuseAnswer(ctx context.Context, a *reading.Answer, f *fault.Fault) error {
	x := n.x
	sum, err := x.outcome.SettleRefusal(ctx, a, f)
	if err != nil {
		return n.refuse(fault.From(err))
	}
	x.outcome.RecordRefused(f)
	r := x.report.Error(f)
	r.Header = sum.Headers(r.Header)
	return n.x.client.Reply(r)
}
