package extproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/follow"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/modality"
	"bardo.money/gateway/extproc/realtime"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// Realtime sessions. Envoy forwards WebSocket handshakes to ServeRealtime. The session is one exchange, which is admitted as a lookup and charged nothing;
// each response is another, with a reservation, a charge and a record of its own, whose id is the session's with a number: ID.1 for the first.

// ServeRealtime serves a handshake that Envoy forwarded, and the session that it opens. Only Envoy may reach it: it reads the client's address from a
// header that Envoy sets. Safe for concurrent use.
func (g *Gateway) ServeRealtime(w http.ResponseWriter, r *http.Request) {
	g.Opened()
	defer g.Closed()
	h := &handshake{w: w, r: r}
	x := g.newExchange(h, realtime.Head(r))
	if err := x.serve(r.Context(), func() error { return x.run(r.Context(), true) }); err != nil && !errors.Is(err, stream.ErrDisconnected) {
		g.Log.Debug("a realtime session ended", "request", x.ID, "error", err)
	}
}

// handshake is the client of a session's exchange, until the connection is upgraded.
type handshake struct {
	later.Client

	w        http.ResponseWriter
	r        *http.Request
	answered bool
}

var _ stream.Client = (*handshake)(nil)

// Reply implements stream.Client: it refuses the handshake.
func (h *handshake) Reply(r stream.Reply) error {
	if h.answered {
		return nil
	}
	h.answered = true
	for _, f := range r.Header {
		h.w.Header().Add(f.Name, f.Value)
	}
	h.w.WriteHeader(r.Status)
	_, err := h.w.Write(r.Body)
	return err
}

// realtime serves a session.
func (x *exchange) realtime(ctx context.Context) error {
	if _, ok := x.connection().(*handshake); !ok {
		return fault.Newf(fault.InvalidRequest, "%s is for WebSocket connections", modality.RealtimePath)
	}
	if x.dryRun {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Route: %s cannot be explained", modality.RealtimePath)
	}
	if x.gw.Draining() {
		return drainingFault()
	}
	model, err := realtime.ModelOf(x.Head.Query)
	if err != nil {
		return err
	}
	x.Request = &chat.Request{Dialect: x.Dialect.Name(), Op: chat.Modality, Model: model, Stream: true, Choices: 1}
	if err := x.ParseBodyHints(); err != nil {
		return err
	}
	if err := x.funds.FindSession(ctx); err != nil {
		return err
	}
	if err := x.findModality(ctx, modality.Realtime(model, 0)); err != nil {
		return err
	}
	if err := modality.MayRelay(&x.View); err != nil {
		return err
	}
	a := &realtimeAccount{session: x, order: x.Order, begun: map[string]*realtimeTurn{}, reader: x.reader(), checked: time.Now()}
	defer a.release()
	if err := a.Prepare(ctx, 1, 0); err != nil { // a key without money is refused before the handshake
		return err
	}
	x.trace.StartFirstAttempt(x.Arrived, x.Waited)
	provider, to, err := modality.Dial(ctx, &x.View, x.gw.listener(), &modalitySink{x: x})
	if err != nil {
		return err
	}
	defer func() { _ = provider.CloseNow() }()
	x.gw.Health.Report(policy.Result{Provider: to.Provider, Outcome: policy.Succeeded, Latency: time.Since(x.trace.AttemptStarted)})
	a.order = []policy.Resolution{*to}
	client, err := x.accept(to)
	if err != nil {
		return err
	}
	defer func() { _ = client.CloseNow() }()
	x.trace.Unbilled = &record.End{Status: http.StatusSwitchingProtocols, Outcome: record.OK}
	s := realtime.Session{Client: client, Provider: provider, Model: modality.Upstream(to), Account: a, MaxAge: realtime.MaxAge}
	s.Run(ctx)
	return nil
}

// accept upgrades the client's connection.
func (x *exchange) accept(to *policy.Resolution) (*websocket.Conn, error) {
	h, _ := x.connection().(*handshake) // checked before
	for _, f := range x.answerHeaders(*to) {
		h.w.Header().Add(f.Name, f.Value)
	}
	h.answered = true
	return websocket.Accept(h.w, h.r, &websocket.AcceptOptions{
		Subprotocols: []string{"realtime"}, CompressionMode: websocket.CompressionDisabled,
		InsecureSkipVerify: true, // callers authenticate by keys, not cookies; authenticate checks the origin of those without
	})
}

func drainingFault() *fault.Fault {
	return fault.New(fault.Unavailable, "the gateway is being stopped: connect again", realtime.ErrDraining)
}

// realtimeAccount reserves and charges the money of a session. Each response is an exchange of its own.
type realtimeAccount struct {
	session *exchange
	order   []policy.Resolution // the candidates; the one that serves the session, once that is open
	ready   []*realtimeTurn     // prepared, not begun
	begun   map[string]*realtimeTurn
	turns   int   // exchanges of responses so far
	refused error // the last failure of Prepare
	reader  *follow.Reader
	checked time.Time // when the key was last checked
}

var _ realtime.Account = (*realtimeAccount)(nil)

// realtimeTurn is the exchange of one response.
type realtimeTurn struct {
	*exchange
	context int64 // tokens that its reservation covers
}

// leastContext is the number of tokens that a reservation covers at least.
const leastContext = 4096

// contextFor returns the number of tokens to reserve for a context: more than it has, so that not every event changes the reservation.
func (a *realtimeAccount) contextFor(context int64) int64 {
	n := int64(leastContext)
	for n < context && n < math.MaxInt64/2 {
		n *= 2
	}
	return min(n, max(a.window(), context))
}

// window returns the context window of the candidates; the maximum number if one is unknown.
func (a *realtimeAccount) window() (n int64) {
	for i := range a.order {
		if a.order[i].Context <= 0 {
			return math.MaxInt64
		}
		n = max(n, int64(a.order[i].Context))
	}
	return n
}

// Prepare implements realtime.Account.
func (a *realtimeAccount) Prepare(ctx context.Context, n int, context int64) (err error) {
	defer func() { a.refused = err }()
	context = min(context, a.window())
	for i, t := range a.ready {
		if t.context >= context {
			continue
		}
		if err := a.reserve(ctx, t, context); err != nil {
			a.ready = slices.Delete(a.ready, i, i+1)
			return err
		}
	}
	for len(a.ready) < n {
		t := a.newTurn()
		if err := a.admit(ctx, t, context); err != nil {
			return err
		}
		a.ready = append(a.ready, t)
	}
	return nil
}

// newTurn returns an exchange with the decisions of the session.
func (a *realtimeAccount) newTurn() *realtimeTurn {
	x := a.session
	a.turns++
	t := x.gw.newExchangeAs(&later.Client{}, x.Head, fmt.Sprintf("%s.%d", x.ID, a.turns))
	id, started, side := t.ID, t.Started, t.Side
	t.View = x.View
	t.ID, t.Started, t.Side, t.Order = id, started, side, a.order
	t.trace.Operation = telemetry.Realtime
	t.bill.PaidBy(t.Principal, t.gw.meter.PayerOf(&t.Principal), t.Config.Spread(&t.Principal))
	return &realtimeTurn{exchange: t}
}

// admit checks the limits of the key, and reserves the highest cost of a response.
func (a *realtimeAccount) admit(ctx context.Context, t *realtimeTurn, context int64) error {
	return a.guarded(ctx, t, func() error {
		if err := t.limit(ctx, &endpoint.Endpoint{Method: http.MethodPost, Class: endpoint.Generate}); err != nil {
			return err
		}
		if err := t.funds.FindSession(ctx); err != nil {
			return err
		}
		t.context = a.contextFor(context)
		return t.payModality(ctx, modality.Realtime(t.Request.Model, t.context))
	})
}

// reserve raises the reservation of a response.
func (a *realtimeAccount) reserve(ctx context.Context, t *realtimeTurn, context int64) error {
	return a.guarded(ctx, t, func() error {
		t.context = a.contextFor(context)
		return t.payModality(ctx, modality.Realtime(t.Request.Model, t.context))
	})
}

// guarded runs f for a response. If that fails the response's exchange is ended as a refused request.
func (a *realtimeAccount) guarded(ctx context.Context, t *realtimeTurn, f func() error) error {
	err := t.guarded(f)
	if err == nil {
		return nil
	}
	refused := fault.From(err)
	_ = t.end(ctx, refused) // its client only stores the answer
	return refused
}

// Begin implements realtime.Account.
func (a *realtimeAccount) Begin(ctx context.Context, id string) (err error) {
	var t *realtimeTurn
	if len(a.ready) > 0 {
		t = a.ready[0]
		a.ready = a.ready[1:]
	} else {
		t = a.newTurn()
		_ = t.bill.Reserve(ctx, 0) // its cost is owed in any case
		if err = a.refused; err == nil {
			err = fault.Newf(fault.InsufficientFunds, "a response began that was not paid for")
		}
	}
	t.Started = time.Now()
	t.trace.StartFirstAttempt(time.Time{}, 0)
	t.trace.AttemptStarted = t.Started
	t.bill.Begin(&a.order[0], t.Started)
	a.begun[id] = t
	return err
}

// Done implements realtime.Account.
func (a *realtimeAccount) Done(ctx context.Context, id string, u *realtime.Usage, how realtime.Outcome) error {
	t := a.begun[id]
	if t == nil {
		return nil
	}
	delete(a.begun, id)
	defer t.closeGuarded()
	if how == realtime.Failed && u.Estimated {
		u = &realtime.Usage{}
	}
	used := modality.Used{
		Text: u.Text, Image: u.Image, Audio: u.Audio, Output: u.Output, AudioOutput: u.AudioOutput,
		CachedText: u.CachedText, CachedImage: u.CachedImage, CachedAudio: u.CachedAudio, Reported: !u.Estimated, Estimated: u.Estimated,
	}
	t.bill.EndCall()
	err := t.guarded(func() error {
		_, err := (&modalitySink{t.exchange, modality.Realtime(t.Request.Model, math.MaxInt64)}).Settle(context.WithoutCancel(ctx), &a.order[0], &used, outcomes[how])
		return err
	})
	if err == nil {
		return nil
	}
	t.gw.Log.Error("a response of a realtime session was not charged", "request", t.ID, "error", err)
	return fault.From(err)
}

// outcomes are the outcomes of responses in their records.
var outcomes = map[realtime.Outcome]string{
	realtime.Complete: record.OK, realtime.Failed: record.OK, realtime.Cancelled: record.Cancelled, realtime.Cut: record.Cut,
}

// keyCheck is how often a session's key is checked.
const keyCheck = time.Second

// Check implements realtime.Account.
func (a *realtimeAccount) Check(ctx context.Context) error {
	if a.session.gw.Draining() {
		return drainingFault()
	}
	if time.Since(a.checked) < keyCheck {
		return nil
	}
	a.checked = time.Now()
	if a.reader.Revoked(ctx) {
		return fault.Newf(fault.InvalidAPIKey, "the API key of this session was revoked")
	}
	return nil
}

// Error implements realtime.Account.
func (a *realtimeAccount) Error(f *fault.Fault) json.RawMessage {
	v, _ := jsonx.Parse(a.session.Dialect.Error(f, a.session.ID)) // the dialect writes JSON
	return json.RawMessage(v.Get("error").Raw)
}

// release ends what is prepared and was not used.
func (a *realtimeAccount) release() {
	for _, t := range a.ready {
		t.abandon()
	}
	a.ready = nil
}
