package extproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/follow"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/modality"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/realtime"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/extproc/upstream"
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
	if err := x.findModality(ctx, modality.Realtime(model, 0, 0)); err != nil {
		return err
	}
	if err := modality.MayRelay(&x.View); err != nil {
		return err
	}
	s := &realtime.Session{Host: &realtimeHost{session: x, order: x.Order, reader: x.reader(), checked: time.Now(), inspection: modality.NewInspection(&x.View)}, Window: modality.Window(x.Order)}
	defer s.Close()
	if err := s.Open(ctx); err != nil {
		return err
	}
	x.trace.StartFirstAttempt(x.Arrived, x.Waited)
	provider, to, err := modality.Dial(ctx, &x.View, x.gw.listener(), &modalitySink{x: x})
	if err != nil {
		return err
	}
	defer func() { _ = provider.CloseNow() }()
	x.gw.Health.Report(policy.Result{Provider: to.Provider, Outcome: policy.Succeeded, Latency: time.Since(x.trace.AttemptStarted)})
	client, err := x.accept(to)
	if err != nil {
		return err
	}
	defer func() { _ = client.CloseNow() }()
	x.trace.Unbilled = &record.End{Status: http.StatusSwitchingProtocols, Outcome: record.OK}
	s.Client, s.Provider, s.Model = client, provider, modality.Upstream(to)
	s.ClientInbox, s.ProviderInbox = x.inbox(x.Config.MaxBody), x.inbox(realtime.MaxMessage)
	s.Host.(*realtimeHost).order = []policy.Resolution{*to}
	if broken := s.Run(ctx); broken != nil {
		x.trace.Unbilled.Outcome = record.Cut
		x.outcome.RecordFailure(*to, realtimeFailure(to, broken))
	}
	return nil
}

// freeMessage is the memory of one message, in bytes, that is not counted: while it is used up, sessions with short messages go on.
const freeMessage = 128 << 10

// inbox returns an inbox for messages of at most maxBytes, whose memory counts as that of bodies.
func (x *exchange) inbox(maxBytes int64) upload.Body {
	t := &x.Config.Timeouts
	return upload.Body{Memory: &x.gw.bodies, Limits: upload.Limits{
		Body: min(maxBytes, realtime.MaxMessage), Bodies: x.Config.MaxBodies, Free: freeMessage, Idle: t.UploadIdle, Total: t.UploadTotal,
	}}
}

// realtimeFailure is the failure of a provider whose connection broke.
func realtimeFailure(to *policy.Resolution, cause error) *upstream.Failure {
	return &upstream.Failure{Provider: to.Provider, Kind: upstream.Reset, Cause: cause}
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

// realtimeHost is the gateway of a session. Each response is an exchange of its own.
type realtimeHost struct {
	session *exchange
	order   []policy.Resolution // the candidates; the one that serves the session, once that is open
	turns   int                 // exchanges of responses so far
	reader  *follow.Reader
	checked time.Time // when the key was last checked

	inspection *modality.Inspection
	mu         sync.Mutex       // guards found
	found      []pipeline.Entry // by layers in events since the last response began
}

var _ realtime.Host = (*realtimeHost)(nil)

// NewTurn implements realtime.Host: an exchange with the decisions of the session.
func (a *realtimeHost) NewTurn() realtime.Turn {
	x := a.session
	a.turns++
	t := x.gw.newExchangeAs(&later.Client{}, x.Head, fmt.Sprintf("%s.%d", x.ID, a.turns))
	id, started, side := t.ID, t.Started, t.Side
	t.View = x.View
	t.ID, t.Started, t.Side, t.Order = id, started, side, a.order
	t.trace.Operation = telemetry.Realtime
	t.bill.PaidBy(t.Principal, t.gw.meter.PayerOf(&t.Principal), t.Config.Spread(&t.Principal))
	return &realtimeTurn{exchange: t, host: a}
}

// realtimeTurn is the exchange of one response.
type realtimeTurn struct {
	*exchange
	host     *realtimeHost
	admitted bool
}

var _ realtime.Turn = (*realtimeTurn)(nil)

// Reserve implements realtime.Turn.
func (t *realtimeTurn) Reserve(ctx context.Context, n realtime.Need) error {
	err := t.guarded(func() error {
		if !t.admitted {
			if err := t.limit(ctx, &endpoint.Endpoint{Method: http.MethodPost, Class: endpoint.Generate}); err != nil {
				return err
			}
			t.admitted = true
			if err := t.funds.FindSession(ctx); err != nil {
				return err
			}
		}
		return t.payModality(ctx, modality.Realtime(t.Request.Model, n.Context, n.Output))
	})
	if err == nil {
		return nil
	}
	refused := fault.From(err)
	_ = t.end(ctx, refused) // its client only stores the answer
	return refused
}

// Owe implements realtime.Turn.
func (t *realtimeTurn) Owe(ctx context.Context, n realtime.Need) {
	_ = t.guarded(func() error { return t.payModality(ctx, modality.Realtime(t.Request.Model, n.Context, n.Output)) })
}

// Begin implements realtime.Turn.
func (t *realtimeTurn) Begin() {
	t.Started, t.Log = time.Now(), t.host.takeFound()
	t.trace.StartFirstAttempt(time.Time{}, 0)
	t.trace.AttemptStarted = t.Started
	t.bill.Begin(&t.host.order[0], t.Started)
}

// Settle implements realtime.Turn.
func (t *realtimeTurn) Settle(ctx context.Context, u *realtime.Usage, how realtime.Outcome) error {
	defer t.closeGuarded()
	to := &t.host.order[0]
	if how == realtime.Failed && u.Estimated {
		u = &realtime.Usage{}
	}
	used := modality.Used{
		Text: u.Text, Image: u.Image, Audio: u.Audio, Output: u.Output, AudioOutput: u.AudioOutput,
		CachedText: u.CachedText, CachedImage: u.CachedImage, CachedAudio: u.CachedAudio, Reported: !u.Estimated, Estimated: u.Estimated,
	}
	t.bill.EndCall()
	err := t.guarded(func() error {
		cost, err := modality.CostOf(&t.View, modality.Realtime(t.Request.Model, realtime.Unlimited, realtime.Unlimited), to, &used)
		if err != nil {
			return err
		}
		usage := used.Usage()
		if t.CallerPays(to.Provider) && !used.Reported {
			usage = chat.Usage{Final: true}
		}
		t.bill.AddPriced(to, usage, cost)
		if how == realtime.Cut { // the session reports the broken connection for the provider's health
			f := realtimeFailure(to, nil)
			t.outcome.RecordAttempt(*to, f.String(), f.Reason(), f.Measure())
		} else {
			t.gw.Health.Report(policy.Result{Provider: to.Provider, Outcome: policy.Succeeded, Latency: time.Since(t.Started)})
			t.outcome.RecordAttempt(*to, record.OK, "", telemetry.Served)
		}
		_, err = t.outcome.Settle(context.WithoutCancel(ctx), nil, outcomes[how])
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

// Release implements realtime.Turn.
func (t *realtimeTurn) Release() { t.abandon() }

// keyCheck is how often a session's key is checked.
const keyCheck = time.Second

// maxFound is the number of runs of layers that are kept for the record of the next response.
const maxFound = 64

// Inspect implements realtime.Host.
func (a *realtimeHost) Inspect(ctx context.Context, texts []byte) error {
	log, err := a.inspection.Search(ctx, texts)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.found = append(a.found, log...)
	if n := len(a.found) - maxFound; n > 0 {
		a.found = slices.Delete(a.found, 0, n)
	}
	return err
}

// takeFound returns what layers found since the last response began.
func (a *realtimeHost) takeFound() []pipeline.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.found
	a.found = nil
	return found
}

// Check implements realtime.Host.
func (a *realtimeHost) Check(ctx context.Context) error {
	if a.session.gw.Draining() {
		return drainingFault()
	}
	if time.Since(a.checked) < keyCheck {
		return nil
	}
	a.checked = time.Now()
	p, revoked := a.reader.Current(ctx)
	if revoked {
		return fault.Newf(fault.InvalidAPIKey, "the API key of this session was revoked")
	}
	return a.adopt(&p)
}

// adopt uses a key's new limits and budgets for the turns that follow. Another change ends the session: the session was admitted by what the key was.
func (a *realtimeHost) adopt(now *policy.Principal) error {
	was := &a.session.Principal
	same := *now
	same.Limits, same.Budgets, same.ReputationSpread = was.Limits, was.Budgets, was.ReputationSpread
	if !reflect.DeepEqual(&same, was) {
		return fault.Newf(fault.KeyRestricted, "the API key of this session was changed: connect again")
	}
	was.Limits, was.Budgets = now.Limits, now.Budgets
	return nil
}

// Error implements realtime.Host.
func (a *realtimeHost) Error(f *fault.Fault) json.RawMessage {
	v, _ := jsonx.Parse(a.session.Dialect.Error(f, a.session.ID)) // the dialect writes JSON
	return json.RawMessage(v.Get("error").Raw)
}
