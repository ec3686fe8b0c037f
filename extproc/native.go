package extproc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// The native path, for answers in one piece: Envoy carries the bytes and fails over by itself. This side writes the first
// attempt's request, and reads, meters and writes the answer; later attempts are written by their own streams, from the exchange.

// carry serves a request whose answer Envoy brings.
func (x *exchange) carry(ctx context.Context, d stream.Client) error {
	defer x.gw.exchanges.remove(x)
	if err := x.depart(d); err != nil {
		return err
	}
	n := &nativeAnswer{x: x, client: d}
	for {
		p, err := d.Next()
		if err != nil {
			n.gone()
			return err
		}
		if done, err := n.take(ctx, p); done || err != nil {
			return err
		}
	}
}

// depart sends the first attempt on its way. Its body is gone when Forward returns: later attempts are encoded anew.
func (x *exchange) depart(d stream.Client) error {
	buf := takeBody(len(x.body.bytes()) + encodedMore)
	defer putBody(buf)
	call, plan, err := x.firstCall((*buf)[:0], x.attemptPlan())
	if err != nil {
		return err
	}
	*buf = call.body // it may have grown
	x.plan = plan
	x.gw.exchanges.add(x) // from here on the streams of later attempts may ask for it
	x.departs()
	set, remove := call.headers(x.head.Header)
	x.bill.Begin(plan[0], x.attemptStarted)
	return d.Forward(stream.Forward{
		Set: append(set, x.routeHeaders(plan)...), Remove: append(remove, x.head.Forged...), Body: call.body, Exchange: x.ID, Clusters: x.clusters(plan),
	})
}

// encodedMore is how much longer than the client's most requests are that are written for a provider.
const encodedMore = 1 << 10

// attemptPlan lists which candidate serves each attempt: every one once, a single one twice.
func (x *exchange) attemptPlan() []policy.Resolution {
	plan := x.Order
	if len(plan) == 1 {
		plan = slices.Repeat(plan, max(2, x.rt.Providers[plan[0].Provider].Ring.Len()))
	}
	if most := 1 + x.rt.MaxRetries; len(plan) > most {
		plan = plan[:most]
	}
	return plan
}

// firstCall encodes the first attempt that can be encoded, and drops what comes before it.
func (x *exchange) firstCall(buf []byte, plan []policy.Resolution) (attemptCall, []policy.Resolution, error) {
	var first error
	for i, to := range plan {
		call, err := x.encode(buf, to)
		if err == nil {
			return call, plan[i:], nil
		}
		if first == nil {
			first = err
		}
	}
	return attemptCall{}, nil, first
}

// clusters are Envoy's names for a plan: the first attempt was written here already, the rest are written on their way.
func (x *exchange) clusters(plan []policy.Resolution) []string {
	out := make([]string, len(plan))
	for i, to := range plan {
		out[i] = state.RetryCluster(x.rt.Providers[to.Provider].Cluster)
	}
	out[0] = state.Cluster(x.rt.Providers[plan[0].Provider].Cluster)
	return out
}

// routeHeaders choose the route and bound the attempts.
func (x *exchange) routeHeaders(plan []policy.Resolution) header.List {
	total := strconv.FormatInt(x.totalTime().Milliseconds(), 10)
	h := header.List{
		{Name: state.HeaderPath, Value: state.PathJSON},
		{Name: "x-envoy-max-retries", Value: strconv.Itoa(len(plan) - 1)},
		{Name: "x-envoy-upstream-rq-timeout-ms", Value: total},
	}
	if len(x.Order) == 1 && x.rt.Providers[x.Order[0].Provider].Ring.Len() == 0 {
		h[0].Value = state.PathAlone
	}
	h = append(h, x.affinityHeader()...)
	try := x.rt.Timeouts.whole(x.Request, x.outputTokens(plan[0]))
	return append(h, header.Field{Name: "x-envoy-upstream-rq-per-try-timeout-ms", Value: strconv.FormatInt(try.Milliseconds(), 10)})
}

// Attempt implements stream.Handler, for an attempt at a retry cluster.
func (g *Gateway) Attempt(a *stream.Attempt) (stream.AttemptRequest, error) {
	x := g.exchanges.get(a.Exchange)
	if x == nil {
		return stream.AttemptRequest{}, fmt.Errorf("no exchange %q", a.Exchange)
	}
	to := x.planned(a.Number)
	if err := x.astray(to, a.Cluster, a.Number); err != nil {
		return stream.AttemptRequest{}, err
	}
	call, err := x.encodeBeside(to)
	if err != nil {
		x.unwritten.Store(&unwrittenAttempt{a.Number, err})
		return stream.AttemptRequest{}, err
	}
	x.retried.Store(&retriedAttempt{a.Number, time.Now()})
	set, remove := call.headers(a.Header)
	return stream.AttemptRequest{Set: set, Remove: remove, Body: call.body}, nil
}

// astray is the error that attempt n (from 1) is at another cluster than was planned; nil if it is not. The request must not be written for
// that provider, with its key, and what it answers must not be read by the rules of another.
func (x *exchange) astray(to policy.Resolution, cluster string, n int) error {
	at := x.rt.Providers[to.Provider].Cluster
	if at == state.ProviderOf(cluster) {
		return nil
	}
	return fmt.Errorf("attempt %d of %s went to %q, planned was %q", n, x.ID, cluster, at)
}

// retriedAttempt is an attempt that Envoy began after another one failed.
type retriedAttempt struct {
	number int
	at     time.Time
}

// gone notes on the bill that the exchange ended without an answer: its client disconnected, or the provider's error broke off in the
// middle and Envoy answered. A provider that refused is owed nothing.
func (n *nativeAnswer) gone() {
	if n.head != nil && n.head.Status/100 != 2 {
		n.x.bill.Over()
		return
	}
	n.x.begin(0)
}

// begin notes on the bill which of Envoy's attempts is under way: attempt n (from 1), or the latest one for 0.
func (x *exchange) begin(n int) {
	r := x.retried.Load()
	if r == nil || n == 1 {
		return
	}
	if n == 0 {
		n = r.number
	}
	x.bill.Begin(x.planned(n), r.at)
}

// unwrittenAttempt is an attempt whose request could not be written. Envoy ends the exchange with it.
type unwrittenAttempt struct {
	number int
	why    error
}

// planned is the resolution of attempt n; Envoy repeats the last group of its order.
func (x *exchange) planned(n int) policy.Resolution {
	return x.plan[min(max(n, 1), len(x.plan))-1]
}

// nativeAnswer reads the answer that Envoy brings and passes it on in the client's format.
type nativeAnswer struct {
	x      *exchange
	client stream.Client
	head   *stream.AnswerHead
	to     policy.Resolution
	a      *answer
	size   int
}

// take handles one piece; done is true once the client has its whole answer.
func (n *nativeAnswer) take(ctx context.Context, p stream.Piece) (done bool, err error) {
	if p.Head != nil {
		if done, err := n.begin(ctx, p.Head); done || err != nil {
			return done, err
		}
	}
	if n.head == nil {
		return false, errors.New("a body came before its head")
	}
	n.a.feed(ctx, p.Body, p.End)
	switch {
	case n.head.Status/100 != 2:
		return n.errorBody(ctx, p)
	case n.a.failed != nil || n.a.broken != nil:
		return true, n.fail(ctx)
	case !n.a.ended:
		return false, nil
	}
	return true, n.whole(ctx)
}

// begin reads the answer's head: which attempt answered, and what became of those before it.
func (n *nativeAnswer) begin(ctx context.Context, h *stream.AnswerHead) (done bool, err error) {
	unwritten := n.x.unwritten.Load()
	if unwritten != nil {
		h.Attempts = unwritten.number
	}
	n.head, n.to = h, n.x.planned(h.Attempts)
	var fs []*upstream.Failure
	for i := 1; i < h.Attempts; i++ {
		to := n.x.planned(i)
		f := n.earlier(to, h.Outcome(i))
		n.x.failed(to, f)
		n.x.decided(n.byEnvoy(to, i))
		fs = append(fs, f)
	}
	if unwritten != nil && isBroken(unwritten.why) {
		return true, n.refuse(fault.From(unwritten.why))
	}
	if h.Details != "" && h.Details != "via_upstream" {
		f := upstream.Local(n.to.Provider, h.Status, h.Details)
		if unwritten != nil {
			f = &upstream.Failure{Provider: n.to.Provider, Kind: upstream.NotEncoded, Cause: unwritten.why}
		}
		n.x.failed(n.to, f)
		n.x.decided(upstream.Decision{Why: "Envoy had no attempt left that may do better"})
		return true, n.giveUp(ctx, append(fs, f))
	}
	if err := n.x.astray(n.to, h.Cluster, h.Attempts); err != nil {
		f := &upstream.Failure{Provider: n.to.Provider, Kind: upstream.NotEncoded, Cause: err}
		n.x.failed(n.to, f)
		n.x.decided(upstream.Decision{Why: "Envoy called another provider than was planned"})
		return true, n.giveUp(ctx, []*upstream.Failure{f})
	}
	n.x.begin(h.Attempts)
	n.a = n.x.newAnswer(n.x.tryOf(n.to), h.Status, h.Header)
	_, n.a.began = n.x.bill.InFlight()
	if h.Status/100 == 2 {
		n.x.current = n.a
		return false, nil
	}
	n.x.earlierFailures = fs
	if h.Status < http.StatusOK { // no body belongs to it
		return n.errorBody(ctx, stream.Piece{End: true})
	}
	return false, nil
}

// byEnvoy is what Envoy did after attempt i (from 1), which was a candidate's.
func (n *nativeAnswer) byEnvoy(to policy.Resolution, i int) upstream.Decision {
	if n.x.planned(i+1).Provider == to.Provider {
		return upstream.Decision{Move: upstream.Repeat, Why: "the only candidate, and the failure may pass"}
	}
	return upstream.Decision{Move: upstream.Advance, Why: "another candidate may do better"}
}

// earlier reads why an attempt before the answering one failed. One that noted nothing had no answer, or one that broke off.
func (n *nativeAnswer) earlier(to policy.Resolution, noted string) *upstream.Failure {
	parts := strings.Split(noted, ";")
	if len(parts) != 3 {
		return &upstream.Failure{Provider: to.Provider, Kind: upstream.Reset, Cause: errors.New("no answer, or half of one")}
	}
	code, _ := strconv.Atoi(parts[1])
	return &upstream.Failure{Provider: to.Provider, Kind: upstream.ByStatus, Status: code, RetryAfter: retryAfter(parts[2])}
}

// errorBody waits for the end of a refused attempt's body and passes on what concerns the caller.
func (n *nativeAnswer) errorBody(ctx context.Context, p stream.Piece) (done bool, err error) {
	n.size += len(p.Body)
	if !p.End && n.size < maxErrorBody {
		return false, nil
	}
	f := upstream.Stated(n.to.Provider, errorOf(n.a, n.head.Status))
	n.x.failed(n.to, f)
	state := upstream.State{
		Failure: f, Failures: n.head.Attempts, MaxRetries: n.x.rt.MaxRetries, Candidates: len(n.x.plan), Left: len(n.unasked(n.to.Provider)), Once: true,
	}
	again, ok := n.x.amend(n.to, f)
	state.Amendable = ok && p.End
	d := upstream.Next(&state)
	n.x.decided(d)
	if d.Move == upstream.Amend {
		return true, n.ask(ctx, again)
	}
	return true, n.giveUp(ctx, append(n.x.earlierFailures, f))
}

// fail ends an answer that its provider broke off or turned into an error.
func (n *nativeAnswer) fail(ctx context.Context) error {
	f := &upstream.Failure{Provider: n.to.Provider, Kind: upstream.NotEncoded, Cause: n.a.broken}
	if n.a.failed != nil {
		f = upstream.Stated(n.to.Provider, n.a.failed)
	}
	n.x.failed(n.to, f)
	n.x.decided(upstream.Decision{Why: "the answer had begun, and Envoy does not repeat such a call"})
	return n.giveUp(ctx, []*upstream.Failure{f})
}

// giveUp answers a request whose candidates all failed: with a stored answer, or with an error. Nothing has been sent yet.
func (n *nativeAnswer) giveUp(ctx context.Context, fs []*upstream.Failure) error {
	e := n.x.standIn(fs)
	if e == nil {
		return n.refuse(n.x.exhausted(fs))
	}
	r, err := n.x.wholeStored(ctx, n.x.useStored(e, knownStale))
	if err != nil {
		return n.refuse(fault.From(err))
	}
	return n.client.Reply(r)
}

// refuse answers with an error; nothing has been sent yet.
func (n *nativeAnswer) refuse(f *fault.Fault) error {
	n.x.refused(f)
	return n.client.Reply(n.x.errorReply(f))
}

// whole answers a request whose answer comes in one piece.
func (n *nativeAnswer) whole(ctx context.Context) error {
	sum, err := n.x.settle(ctx, n.a, record.OK)
	if err != nil {
		return n.refuse(fault.From(err))
	}
	body := n.a.end
	set := append(n.x.answerHeaders(n.to), sum.headers()...)
	set = append(set, header.Field{Name: "content-type", Value: header.JSON}, header.Field{Name: "content-length", Value: strconv.Itoa(len(body))})
	return n.client.Answer(stream.Reply{Status: http.StatusOK, Header: set, Body: body}, foreign(n.head.Header, set))
}

// foreign lists the provider's headers that the client must not see: all but those that are set anew.
func foreign(h, set header.List) []string {
	out := make([]string, 0, len(h))
	for _, f := range h {
		if f.Name != "" && f.Name[0] != ':' && !set.Has(f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// retryAfter reads a Retry-After of seconds; other forms are for the decoder, which sees the whole header.
func retryAfter(s string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}
