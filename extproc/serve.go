package extproc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/quota"
)

func (g *Gateway) newExchange(hd stream.Head) *exchange { return g.newExchangeAs(hd, "") }

// newExchangeAs is a new exchange with an id that its request has already; "" for none.
func (g *Gateway) newExchangeAs(hd stream.Head, id string) *exchange {
	rt := g.runtime.Load()
	x := &exchange{
		View: request.View{Config: rt, Head: hd, Dialect: rt.Dialects[hd.Dialect()], Started: time.Now()}, gw: g, trace: record.Trace{Operation: telemetry.Unrouted},
	}
	if x.ID, x.Header = id, hd.Header; id == "" {
		x.ID = newID(x.Started)
	}
	x.review.View, x.review.Events = &x.View, g.Events
	x.calls.Client, x.calls.Listener, x.calls.Owner = g.Egress, g.Listener, (*callOwner)(x)
	x.bill.Open(g.meter, x, x.ID)
	x.Side = (*layerCalls)(x)
	x.wantsTrailers = hd.Header.Get("te") == "trailers"
	g.live.Add(1)
	g.Metrics.ExchangeStarted()
	return x
}

// run serves the request: it finds its endpoint, admits the caller, reads and decodes the body, routes, and answers. An error that is a fault has
// not been sent to the client yet.
func (x *exchange) run(ctx context.Context, d stream.Client, bodyless bool) error {
	if x.Head.Method == http.MethodOptions {
		x.trace.Operation = telemetry.Lookup
		r, err := x.options()
		if err != nil {
			return err
		}
		return x.reply(d, r)
	}
	e, err := endpoint.Find(&x.Head)
	if err != nil {
		return err
	}
	x.trace.Operation = e.Operation()
	if !x.staysOnThread(&e) {
		return d.Leave(func() error { return x.answer(ctx, d, e, bodyless) })
	}
	return x.answer(ctx, d, e, bodyless)
}

// staysOnThread reports whether the caller can be authenticated without waiting, and the endpoint is one whose requests may be served so.
func (x *exchange) staysOnThread(e *endpoint.Endpoint) bool {
	if e.Local != nil || e.Stored || e.Modality != nil || e.Class != endpoint.Generate {
		return false
	}
	v, ok := x.gw.Verifier.(auth.Immediate)
	return ok && v.Immediate(x.authRequest())
}

// answer authenticates the caller and answers it.
func (x *exchange) answer(ctx context.Context, d stream.Client, e endpoint.Endpoint, bodyless bool) error {
	if e.Class == endpoint.Open {
		return x.admitted(ctx, d, e, bodyless)
	}
	if err := x.identify(ctx); err != nil {
		return err
	}
	if !x.bill.Immediate(&quota.Ask{Client: x.Head.Peer, Class: quota.Generation}) {
		return d.Leave(func() error { return x.admit(ctx, d, e, bodyless) })
	}
	return x.admit(ctx, d, e, bodyless)
}

// admit checks the caller's limits and answers it. It runs before the body is read: a refused request uses no memory for it.
func (x *exchange) admit(ctx context.Context, d stream.Client, e endpoint.Endpoint, bodyless bool) error {
	if err := x.limit(ctx, &e); err != nil {
		return err
	}
	return x.admitted(ctx, d, e, bodyless)
}

// admitted answers a caller who may be served.
func (x *exchange) admitted(ctx context.Context, d stream.Client, e endpoint.Endpoint, bodyless bool) error {
	if err := x.boundToSession(&e); err != nil {
		return err
	}
	if e.Local != nil {
		return x.answerLocally(ctx, d, &e, bodyless)
	}
	if err := x.parseHeaders(); err != nil {
		return err
	}
	if err := x.checkDeferrable(&e); err != nil {
		return err
	}
	if e.Stored {
		return x.passthrough(ctx, d, bodyless)
	}
	if e.Modality != nil {
		return x.modality(ctx, d, e.Modality, bodyless)
	}
	if e.Compact {
		return x.compact(ctx, d, bodyless)
	}
	if err := x.read(d, e, bodyless); err != nil {
		return err
	}
	if x.dry && x.localModel() == nil {
		if x.mayClassify() {
			return d.Leave(func() error { return x.explain(d) })
		}
		return x.explain(d)
	}
	if x.Hints.DailyBudget > 0 || x.Hints.DIEMAvailable || x.MayNameStored() || x.namesSession() { // what was spent, and who owns what is named, is read from the ledger
		return d.Leave(func() error { return x.routeAndCall(ctx, d) })
	}
	return x.routeAndCall(ctx, d)
}

// answerLocally answers a request to one of the gateway's own endpoints.
func (x *exchange) answerLocally(ctx context.Context, d stream.Client, e *endpoint.Endpoint, bodyless bool) (err error) {
	c := api.Caller{Principal: x.Principal, Head: &x.Head, Catalog: x.Config.Resolver, Local: x.Config.Embeddings.Local}
	if e.MaxBody > 0 {
		if c.Body, err = x.readBodyUpTo(d, bodyless, e.MaxBody); err != nil {
			return err
		}
	}
	r, err := e.Local(&x.gw.api, ctx, &c)
	if err != nil {
		return err
	}
	if !r.Header.Has("x-request-id") { // the answer to another request has that one's
		r.Header = append(r.Header, x.idHeaders()...)
	}
	return x.reply(d, r)
}

// routeAndCall decides who serves the request, and has it served.
func (x *exchange) routeAndCall(ctx context.Context, d stream.Client) error {
	if m := x.localModel(); m != nil {
		return d.Leave(func() error {
			if err := x.mayUseLocal(ctx); err != nil {
				return err
			}
			return x.embed(ctx, d, m)
		})
	}
	if x.mayClassify() {
		return d.Leave(func() error {
			x.classify(ctx)
			return x.decideAndCall(ctx, d)
		})
	}
	return x.decideAndCall(ctx, d)
}

// decideAndCall finds the candidates, and has the request served.
func (x *exchange) decideAndCall(ctx context.Context, d stream.Client) error {
	if err := x.candidates(ctx); err != nil {
		return err
	}
	if x.layersWait() {
		return d.Leave(func() error { return x.prepareAndCall(ctx, d) })
	}
	return x.prepareAndCall(ctx, d)
}

// prepareAndCall runs the layers, and has the request served.
func (x *exchange) prepareAndCall(ctx context.Context, d stream.Client) error {
	if err := x.prepare(ctx); err != nil {
		return err
	}
	switch {
	case x.IsTokenCount() && !x.countsUpstream():
		return d.Leave(func() error { return x.reply(d, x.countReply()) })
	case x.Answer != nil:
		return d.Leave(func() error { return x.replay(ctx, d, x.Answer, x.foundBy()) })
	case x.trace.Cache == record.CacheCoalesced:
		return d.Leave(func() error { return x.follow(ctx, d) })
	}
	if !x.reserveNow() {
		return d.Leave(func() error { return x.payAndCall(ctx, d) })
	}
	return x.payAndCall(ctx, d)
}

// reserveNow reserves what the request may cost, if that needs no waiting.
func (x *exchange) reserveNow() bool {
	if x.session.session != nil {
		return false
	}
	if x.IsTokenCount() || !x.Principal.Prepaid {
		return true
	}
	if x.ownKeysPay(x.Order) {
		return x.bill.ReserveNow(0)
	}
	return x.bill.ReserveNow(x.toReserve())
}

// payAndCall checks the limits, makes the reservation, and calls the candidates.
func (x *exchange) payAndCall(ctx context.Context, d stream.Client) error {
	if !x.IsTokenCount() {
		if err := x.afford(ctx); err != nil {
			return err
		}
	}
	if x.deferral.by > 0 {
		return d.Leave(func() error { return x.putOff(ctx, d) })
	}
	return x.call(ctx, d)
}

// reply answers a request that no provider serves.
func (x *exchange) reply(d stream.Client, r stream.Reply) error {
	x.trace.Unbilled = &record.End{Status: r.Status, Outcome: record.OK}
	return d.Reply(r)
}

// call calls the candidates, on the driven or the native path.
func (x *exchange) call(ctx context.Context, d stream.Client) error {
	if x.driven() {
		return d.Leave(func() error { return x.drive(ctx, d) })
	}
	return x.forwardViaEnvoy(ctx, d)
}

// identify authenticates the caller, and finds out who pays.
func (x *exchange) identify(ctx context.Context) error {
	p, err := x.authenticate(ctx)
	if err != nil {
		return err
	}
	x.Principal = p
	x.bill.Charge(p, x.gw.meter.PayerOf(&p), x.Config.Spread(p.Tier))
	return nil
}

// readBody reads the body of a request that needs one. The error is a fault.
func (x *exchange) readBody(d stream.Client, bodyless bool) ([]byte, error) {
	body, err := x.readBodyUpTo(d, bodyless, x.Config.MaxBody)
	if err == nil {
		x.gw.served.Add(1)
	}
	return body, err
}

// readBodyUpTo is readBody for a body of at most so many bytes.
func (x *exchange) readBodyUpTo(d stream.Client, bodyless bool, most int64) ([]byte, error) {
	if bodyless {
		return nil, fault.Newf(fault.InvalidRequest, "the request has no body")
	}
	if enc := x.Head.Header.Get("content-encoding"); enc != "" && enc != "identity" {
		return nil, fault.Newf(fault.UnsupportedMedia, "content-encoding %q is not supported: send the body uncompressed", enc)
	}
	return x.receive(d, most)
}

// read reads the request's body and decodes it in one pass.
func (x *exchange) read(d stream.Client, e endpoint.Endpoint, bodyless bool) error {
	body, err := x.readBody(d, bodyless)
	if err != nil {
		return err
	}
	if x.deferral.by > 0 {
		x.deferral.body = bytes.Clone(body)
	}
	if e.Detect != nil && x.Dialect.Name() != chat.Anthropic { // for a client with Anthropic's header, its own format counts
		x.Dialect = x.Config.Dialects[e.Detect(body)]
	}
	if d, ok := x.Dialect.(wire.Addressed); ok {
		x.Dialect = d.ForPath(x.Head.Path, x.Head.Query)
	}
	if x.Request, err = x.Dialect.Decode(e.Op, x.Head.Header, x.Head.Query, body); err != nil {
		return err
	}
	return x.ParseBodyHints()
}

// receive reads the request's body of at most so many bytes, which stays valid until the exchange is closed.
func (x *exchange) receive(d stream.Client, most int64) ([]byte, error) {
	t := &x.Config.Timeouts
	x.body = upload.Body{
		Memory: &x.gw.bodies, TimeoutReply: x.uploadTimeout,
		Limits: upload.Limits{Body: min(most, x.Config.MaxBody), Bodies: x.Config.MaxBodies, Idle: t.UploadIdle, Total: t.UploadTotal},
	}
	body, err := x.body.Receive(d, &x.Head)
	if err != nil {
		return nil, err
	}
	x.Arrived = time.Now()
	return body, nil
}

// uploadTimeout answers a client whose body is too slow.
func (x *exchange) uploadTimeout(f *fault.Fault, send func(stream.Reply) error) {
	defer x.recoverPanic()
	r := x.errorReply(f)
	r.Header = x.cors().AddHeaders(r.Header)
	_ = send(r) // a client that disconnected needs no answer
}

// failed notes a failed attempt of the request's order, for which nobody pays.
func (x *exchange) failed(to policy.Resolution, f *upstream.Failure) {
	x.tellFallback(to, f)
	x.bill.Over()
	x.noteFailure(to, f)
}

// noteFailure notes a failed attempt: in the trace, for the provider's health, its key and its list of models.
func (x *exchange) noteFailure(to policy.Resolution, f *upstream.Failure) {
	x.attempted(to, f.String(), f.Reason(), f.Measure())
	if attempt.ConcernsOwnKey(&x.View, f) {
		return
	}
	x.quarantine(&to, f)
	if f.Status == http.StatusNotFound && x.IsTokenCount() {
		return // a provider without this endpoint is healthy
	}
	r := f.Result()
	if x.calls.RestKey(f) {
		r.Outcome = policy.Ignored
	}
	x.gw.Health.Report(r)
}

// refused notes the error that the client gets. Its record is written and the reservation released before the error is sent: the client may read
// the one, and retry with the other, immediately.
func (x *exchange) refused(f *fault.Fault) {
	if f.Status == upstream.StatusOverloaded && x.Dialect.Name() != chat.Anthropic {
		f.Status = 0 // only Anthropic's clients know this status
	}
	x.trace.Fault = f
	x.end()
	x.bill.Release()
}

// errorReply is a fault in the client's format.
func (x *exchange) errorReply(f *fault.Fault) stream.Reply {
	h := append(x.idHeaders(), header.Field{Name: "content-type", Value: header.JSON})
	if f.RetryAfter > 0 {
		h = append(h, header.Field{Name: "retry-after", Value: strconv.Itoa(int((f.RetryAfter + time.Second - 1) / time.Second))})
	}
	if !f.ShouldRetry() || x.bill.Answers() > 0 { // an SDK must not retry what was billed; Claude Code retries even a 401 for minutes
		h = append(h, header.Field{Name: "x-should-retry", Value: "false"})
	}
	if f.Kind == fault.MethodNotAllowed { // RFC 9110, 15.5.6
		h = append(h, header.Field{Name: "allow", Value: endpoint.Methods(x.Head.Path)})
	}
	if n := len(x.trace.Attempts); n > 0 {
		h = append(h, header.Field{Name: "x-bardo-attempts", Value: strconv.Itoa(n)})
	}
	h = x.ruleHeaders(x.Announced(x.refusalHeaders(h, f)))
	body := x.Dialect.Error(f, x.ID)
	if c, ok := errors.AsType[*meter.Challenge](f); ok {
		if h = append(h, c.Header...); c.Body != nil {
			body = c.Body
		}
	}
	if x.Head.Method == http.MethodHead {
		body = nil
	}
	return stream.Reply{Status: f.HTTPStatus(), Header: h, Body: body}
}

// errorEncoder writes error events for a stream that has begun.
func (x *exchange) errorEncoder() wire.Encoder {
	if x.current != nil {
		return x.current.enc
	}
	return x.Dialect.NewEncoder(wire.Options{Stream: true, RequestID: x.ID, Created: x.Started.Unix(), Request: cmp.Or(x.Asked, x.Request)})
}

// close releases what the exchange still holds and writes its record.
func (x *exchange) close() {
	x.finish()
	x.letGo()
}

// letGo releases what an exchange holds besides money.
func (x *exchange) letGo() {
	x.session.hold.Release()
	x.leaveCoalesced()
	if x.endProbation != nil {
		x.endProbation()
	}
	x.gw.live.Add(-1)
	x.calls.Close() // the stream of a late retry may still be writing from the body
	x.body.Release()
}

// A panic ends one request and nothing else: its client gets a 500, or a broken stream. Every goroutine that works for a request recovers: a panic
// that is not recovered would end the program.

// guarded is run with panics as errors.
func (x *exchange) guarded(run func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = x.broken(x.panicked(r))
		}
	}()
	return run()
}

// broken is the error that ends an exchange after a panic.
func (x *exchange) broken(why error) error {
	if x.streams { // the status was sent: a part of an answer must not look complete
		return fmt.Errorf("%w: %w", stream.ErrTruncated, why)
	}
	return why
}

// panicked notes a panic; the error is what the client is told.
func (x *exchange) panicked(r any) error { return x.gw.panicked(x.ID, r) }

// panicked logs and counts a panic that a request (its id; "" if unknown) ended in; the error is what the client is told. The stack holds no content of
// the request; the panic's value might, and is left out unless it is a runtime error.
func (g *Gateway) panicked(request string, r any) error {
	g.Metrics.Panicked()
	why, ok := r.(error)
	if !ok {
		why = fmt.Errorf("a panic with a %T", r)
	}
	g.Log.Error("a request ended in a fault of the program", "request", request, "error", why, "stack", string(debug.Stack()))
	return fault.New(fault.Internal, "the gateway failed to handle this request", why)
}

// recoverPanic notes a panic of a goroutine whose result nobody waits for. For defer.
func (x *exchange) recoverPanic() {
	if r := recover(); r != nil {
		_ = x.panicked(r)
	}
}

// encodeBeside writes an attempt's request in the goroutine of a retry's stream. A panic becomes a PanicError.
func (x *exchange) encodeBeside(to *policy.Resolution) (call attempt.Call, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = attempt.PanicError{Cause: x.panicked(r)}
		}
	}()
	return x.encode(nil, to)
}

// closeGuarded is close with panics noted: the client has its answer.
func (x *exchange) closeGuarded() {
	defer x.recoverPanic()
	x.close()
}
