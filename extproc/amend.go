package extproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// amend says how a candidate that refused a request is asked once more, without what it refused. ok is false when its adapter knows
// no way, or the request has no attempt left. It is for after the failure was noted.
func (x *exchange) amend(to policy.Resolution, f *upstream.Failure) (again policy.Resolution, ok bool) {
	if x.spent() {
		return to, false
	}
	if x.turnInstead(&to, f) {
		return to, true
	}
	if x.lowered(to, f) {
		return to, true
	}
	return x.without(to, f)
}

// withoutParams leaves out what the provider refused of the request's profile: the caller did not say it, and is not to hear of it.
func (x *exchange) withoutParams(to policy.Resolution, f *upstream.Failure) (again policy.Resolution, ok bool) {
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return to, false
	}
	refused := x.Request.Profile.Without(to.Without.Params).Refused(f.Err)
	if len(refused) == 0 {
		return to, false
	}
	to.Without.Params = slices.Concat(to.Without.Params, refused)
	return to, true
}

// spent reports whether a request had all its attempts.
func (x *exchange) spent() bool { return len(x.attempts) > x.rt.MaxRetries }

// ask serves the rest of a request of which a candidate refused a part: that candidate without the part, then those after it. Envoy
// does not retry a refusal, so its attempts are over; the gateway calls out through the egress listener, as the driven path does.
func (n *nativeAnswer) ask(client context.Context, to policy.Resolution) error {
	x := n.x
	left := max(x.totalTime()-time.Since(x.arrived), time.Second)
	ctx, cancel := context.WithTimeoutCause(client, left, errTotal)
	defer cancel()
	fs, rest := x.earlierFailures, append([]policy.Resolution{to}, n.unasked(to.Provider)...)
	for i := 0; i < len(rest); {
		a, f := x.fetch(ctx, rest[i])
		if f == nil {
			n.a, n.to = a, rest[i]
			return n.whole(client)
		}
		if client.Err() != nil {
			return context.Cause(client)
		}
		x.failed(rest[i], f)
		state := upstream.State{
			Failure: f, Failures: len(x.attempts), MaxRetries: x.rt.MaxRetries, Candidates: len(rest), Left: len(rest) - 1 - i, Over: ctx.Err() != nil, Once: true,
		}
		again, ok := x.amend(rest[i], f)
		state.Amendable = ok
		d := upstream.Next(&state)
		x.decided(d)
		if d.Move == upstream.Amend {
			rest[i] = again
			continue
		}
		if fs = append(fs, f); d.Move == upstream.Stop {
			break
		}
		i++
	}
	return n.giveUp(client, fs)
}

// unasked are the candidates that Envoy would have asked next, without the one that just answered.
func (n *nativeAnswer) unasked(answered policy.ProviderID) []policy.Resolution {
	after := slices.Clone(n.x.plan[min(n.head.Attempts, len(n.x.plan)):])
	return slices.DeleteFunc(after, func(r policy.Resolution) bool { return r.Provider == answered })
}

// fetch calls a candidate through the egress listener and reads its answer in one piece. The answer is complete when there is no
// failure.
func (x *exchange) fetch(ctx context.Context, to policy.Resolution) (*answer, *upstream.Failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, x.rt.Timeouts.whole(x.Request, x.outputTokens(to)), errFirstToken)
	defer cancel()
	t := x.tryOf(to)
	req, err := x.egressRequest(ctx, t)
	if err != nil {
		return nil, &upstream.Failure{Provider: to.Provider, Kind: upstream.NotEncoded, Cause: err}
	}
	began := time.Now()
	x.bill.Begin(to, began)
	resp, err := x.gw.Egress.Do(req)
	if err == nil {
		defer closeBody(resp)
	}
	if err != nil && ctx.Err() != nil {
		return nil, &upstream.Failure{Provider: to.Provider, Kind: upstream.TimedOut, Cause: context.Cause(ctx)}
	}
	if err != nil || resp.StatusCode/100 != 2 {
		return nil, x.headFailure(ctx, t, resp, err)
	}
	a := x.newAnswer(t, resp.StatusCode, fromHTTP(resp.Header))
	x.current, a.began = a, began
	return a, a.readFrom(ctx, resp.Body)
}

// readFrom feeds a body to the answer until it is complete, and says why it is not.
func (a *answer) readFrom(ctx context.Context, body io.Reader) *upstream.Failure {
	buf := make([]byte, readSize)
	for {
		n, err := body.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			kind := upstream.Reset
			if ctx.Err() != nil {
				kind, err = upstream.TimedOut, context.Cause(ctx)
			}
			return &upstream.Failure{Provider: a.res.Provider, Kind: kind, Cause: err}
		}
		a.feed(ctx, buf[:n], err != nil)
		switch {
		case a.failed != nil:
			return upstream.Stated(a.res.Provider, a.failed)
		case a.broken != nil:
			return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.NotEncoded, Cause: a.broken}
		case a.ended:
			return nil
		case err != nil:
			return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.Reset, Cause: io.ErrUnexpectedEOF}
		}
	}
}
