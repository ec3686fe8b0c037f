package extproc

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
)

// exchange is one request on its way: what the layers see of it, and what the paths need. It is owned by the goroutine that serves
// its stream; attempt streams only encode from it.
type exchange struct {
	pipeline.Exchange
	gw      *Gateway
	rt      *Runtime
	head    stream.Head
	dialect wire.Dialect
	said    hint.Said // which hints came in headers
	started time.Time
	arrived time.Time // the whole body

	wantsTrailers bool
	streams       bool // the head of a stream has gone out
	encodeMu      sync.Mutex
	closed        bool // under encodeMu: the body has gone back to its pool
	body          upload
	dry           bool                           // it is only explained
	lost          map[policy.ProviderID][]string // under encodeMu: what each provider's format could not say
	keys          []takenKey                     // under encodeMu: of providers that have several
	unsaid        []string                       // what of the answer the client's format could not say, once it is complete

	tried func()     // the health plan's trial is over
	bill  meter.Bill // what it holds of its caller's limits and money, and what it owes

	search searchHold // what it holds of its dream cycle's budget for searches of the web

	known     known        // what the cache knew
	stored    *cache.Entry // the answer, if it is a stored one
	fast      bool         // a stored answer is not paced
	fullChain bool         // the answer's reasoning stands beside it
	waited    time.Duration
	upstream  *fault.Fault // why no provider answered

	plan            []policy.Resolution // native path: who serves which attempt
	unwritten       atomic.Pointer[unwrittenAttempt]
	retried         atomic.Pointer[retriedAttempt] // native path: the last one that Envoy began by itself
	earlierFailures []*upstream.Failure
	attempts        []record.Attempt
	current         *answer
	attemptStarted  time.Time
	firstToken      time.Duration
	fault           *fault.Fault
	overhead        time.Duration
	settled         *summary
	operation       telemetry.Operation
	unmetered       *unmetered // nil for what settled accounts for, and until there is an answer

	asked       string            // the model as the client wrote it
	turn        conversation.Turn // of a conversation whose model is left to the gateway
	ownKey      provider.Secret   // that the request brings for its provider
	bound       bool              // it names what one provider stores
	profiled    *profile.Decision // how the answer is to be made; nil for nothing
	profileTold bool              // under encodeMu

	form     *structured.Form // of the answer; nil: whatever it has
	ownForm  wire.Form        // what the client itself says of it
	offered  []chat.Tool      // the client's own
	chosen   chat.ToolChoiceMode
	plans    []plannedForm
	found    *finding   // what the last check of an answer's form came to
	rejected *rejection // the last answer without its form
	reasked  int        // how often a model was told what is wrong with its answer

	opinions   *opinions   // of a second model; nil: none is wanted
	escalation *escalation // to a better tier; nil: it is not to be asked
}

// newID makes a request id that nobody can guess.
func newID() string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "req_" + idEncoding.EncodeToString(b[:])
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

func (g *Gateway) newExchange(hd stream.Head) *exchange {
	rt := g.runtime.Load()
	x := &exchange{gw: g, rt: rt, head: hd, dialect: rt.Dialects[hd.Dialect()], started: time.Now(), operation: telemetry.Unrouted}
	x.ID, x.Header = newID(), hd.Header
	x.bill.Open(g.meter, (*metered)(x), x.ID)
	x.wantsTrailers = hd.Header.Get("te") == "trailers"
	g.live.Add(1)
	g.Metrics.ExchangeStarted()
	return x
}

// run takes the exchange through its phases. An error that is a fault has not been answered yet.
func (x *exchange) run(ctx context.Context, d stream.Client, bodyless bool) error {
	if x.head.Method == http.MethodOptions {
		x.operation = telemetry.Lookup
		r, err := x.options()
		if err != nil {
			return err
		}
		return x.reply(d, r)
	}
	e, err := findEndpoint(&x.head)
	if err != nil {
		return err
	}
	x.operation = e.operation()
	if err := x.admit(ctx, &e); err != nil {
		return err
	}
	if e.local != nil {
		r, err := e.local(&x.gw.api, ctx, &api.Caller{Principal: x.Principal, Head: &x.head, Catalog: x.rt.Resolver})
		if err != nil {
			return err
		}
		r.Header = append(r.Header, x.idHeaders()...)
		return x.reply(d, r)
	}
	if err := x.hear(); err != nil {
		return err
	}
	if e.kept {
		return x.passOn(ctx, d, bodyless)
	}
	if err := x.read(d, e, bodyless); err != nil {
		return err
	}
	if x.dry {
		return x.explain(d)
	}
	if err := x.route(ctx); err != nil {
		return err
	}
	switch {
	case x.isTokenCount() && !x.countsUpstream():
		return x.reply(d, x.countReply())
	case x.Answer != nil:
		return x.replay(ctx, d, x.Answer, knownHash)
	case x.known == knownCoalesced:
		return x.follow(ctx, d)
	}
	return x.call(ctx, d)
}

// unmetered is an answer that nobody pays the gateway for: its own, or one about what a provider keeps.
type unmetered struct {
	status   int    // HTTP, as the client got it
	code     string // "" for an answer
	outcome  string
	provider policy.ProviderID // "" for the gateway itself
}

// reply answers in a provider's place.
func (x *exchange) reply(d stream.Client, r stream.Reply) error {
	x.unmetered = &unmetered{status: r.Status, outcome: record.OK}
	return d.Reply(r)
}

// call asks the candidates.
func (x *exchange) call(ctx context.Context, d stream.Client) error {
	if x.driven() {
		return x.drive(ctx, d)
	}
	return x.carry(ctx, d)
}

// admit finds out who asks, and whether they may ask now. It runs before the body is read: what it refuses holds nothing.
func (x *exchange) admit(ctx context.Context, e *endpoint) error {
	if e.class == classOpen {
		return nil
	}
	p, err := x.authenticate(ctx)
	if err != nil {
		return err
	}
	x.Principal = p
	x.bill.Charge(p, x.rt.spread(p.Tier))
	return x.limit(ctx, e)
}

// read takes in the request's body and decodes it in one pass.
func (x *exchange) read(d stream.Client, e endpoint, bodyless bool) error {
	if bodyless {
		return fault.Newf(fault.InvalidRequest, "the request has no body")
	}
	if enc := x.head.Header.Get("content-encoding"); enc != "" && enc != "identity" {
		return fault.Newf(fault.UnsupportedMedia, "content-encoding %q is not supported: send the body uncompressed", enc)
	}
	body, err := x.receive(d)
	if err != nil {
		return err
	}
	x.gw.served.Add(1)
	if e.detect != nil && x.dialect.Name() != chat.Anthropic { // the header that says Anthropic decides
		x.dialect = x.rt.Dialects[e.detect(body)]
	}
	if d, ok := x.dialect.(wire.Addressed); ok {
		x.dialect = d.At(x.head.Path, x.head.Query)
	}
	if x.Request, err = x.dialect.Decode(e.op, x.head.Header, x.head.Query, body); err != nil {
		return err
	}
	return x.hearBody()
}

// driven reports whether the gateway answers itself: streams need heartbeats, an end that says what went wrong, and another
// candidate, or another try, until their first content; answers in a form may have to be asked for again.
func (x *exchange) driven() bool {
	return x.Request.Op == chat.Generate && (x.Request.Stream || x.form != nil || x.reconsiders())
}

// departs notes that the first attempt is on its way.
func (x *exchange) departs() {
	x.attemptStarted = time.Now()
	x.overhead = x.attemptStarted.Sub(x.arrived) - x.waited
}

// begins notes the first content of a stream.
func (x *exchange) begins() { x.firstToken = time.Since(x.started) }

// failed notes an attempt that did not answer.
func (x *exchange) failed(to policy.Resolution, f *upstream.Failure) {
	x.tellFallback(to, f)
	x.attempted(to, f.String(), f.Measure())
	x.attempts[len(x.attempts)-1].Reason = f.Reason()
	x.bill.Over()
	if x.concernsOwnKey(f) {
		return
	}
	x.quarantine(&to, f)
	if f.Status == http.StatusNotFound && x.isTokenCount() {
		return // a provider without this endpoint is not broken
	}
	r := f.Result()
	if x.restKey(f) {
		r.Outcome = policy.Ignored
	}
	x.gw.Health.Report(r)
}

// decided notes what is done after the last attempt.
func (x *exchange) decided(d upstream.Decision) {
	a := &x.attempts[len(x.attempts)-1]
	a.Next, a.NextWhy = d.Move.String(), d.Why
}

// attempted adds an attempt to the request's record and to the metrics.
func (x *exchange) attempted(to policy.Resolution, outcome string, o telemetry.Outcome) {
	x.attempts = append(x.attempts, record.Attempt{Provider: to.Provider, Model: to.Model, Outcome: outcome})
	x.gw.Metrics.AttemptDone(&telemetry.Attempt{
		Operation: x.operation, Provider: string(to.Provider), Model: string(to.Model), Outcome: o,
		Duration: time.Since(x.attemptStarted), FailedOver: o != telemetry.Served && len(x.attempts) < len(x.Order),
	})
	x.attemptStarted = time.Now()
}

// refused notes what the client is told instead of an answer. Its record is there, and what was reserved is given back, before it is told:
// it may look, or try again with the same money, immediately.
func (x *exchange) refused(f *fault.Fault) {
	if f.Status == upstream.StatusOverloaded && x.dialect.Name() != chat.Anthropic {
		f.Status = 0 // clients of other formats know the kind's own
	}
	x.fault = f
	x.end()
	x.bill.Release()
}

// errorReply is a fault in the caller's format.
func (x *exchange) errorReply(f *fault.Fault) stream.Reply {
	h := append(x.idHeaders(), header.Field{Name: "content-type", Value: header.JSON})
	if f.RetryAfter > 0 {
		h = append(h, header.Field{Name: "retry-after", Value: strconv.Itoa(int((f.RetryAfter + time.Second - 1) / time.Second))})
	}
	if !f.ShouldRetry() || len(x.bill.Calls()) > 0 { // one call of an SDK is paid for once; Claude Code even repeats a 401 for minutes
		h = append(h, header.Field{Name: "x-should-retry", Value: "false"})
	}
	if f.Kind == fault.MethodNotAllowed { // RFC 9110, 15.5.6
		h = append(h, header.Field{Name: "allow", Value: allowed(x.head.Path)})
	}
	if n := len(x.attempts); n > 0 {
		h = append(h, header.Field{Name: "x-bardo-attempts", Value: strconv.Itoa(n)})
	}
	h = x.refusalHeaders(h, f)
	body := x.dialect.Error(f, x.ID)
	if x.head.Method == http.MethodHead {
		body = nil
	}
	return stream.Reply{Status: f.HTTPStatus(), Header: h, Body: body}
}

// errorEncoder writes error events for a stream that has begun.
func (x *exchange) errorEncoder() wire.Encoder {
	if x.current != nil {
		return x.current.enc
	}
	return x.dialect.NewEncoder(wire.Options{Stream: true, RequestID: x.ID, Created: x.started.Unix(), Request: x.Request})
}

// close releases what the exchange still holds and writes its record.
func (x *exchange) close() {
	x.finish()
	x.giveKeys()
	x.leave()
	if x.tried != nil {
		x.tried()
	}
	x.gw.live.Add(-1)
	x.encodeMu.Lock() // a late attempt stream may still be encoding from the body
	defer x.encodeMu.Unlock()
	x.closed = true
	x.body.release()
}
