// Package realtime relays realtime sessions in the format of OpenAI's Realtime API: JSON events over a WebSocket, between a client and a provider. Events
// pass unchanged. The package reads from them when responses begin and end and what they use, and decides what is reserved for which of them; a Host does it. It
// knows nothing of keys, prices or Envoy.
package realtime

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/guard"
)

// Limits of sessions.
const (
	MaxMessage   = 32 << 20 // bytes of one message: OpenAI's largest is 15 MiB of audio, as base64
	MaxAge       = time.Hour
	maxResponses = 16 // begun, or asked for, at the same time
)

// The timing of sessions.
const (
	checkEvery  = 250 * time.Millisecond // of draining and of the key
	pingEvery   = 20 * time.Second
	pongTimeout = 2 * time.Minute // it may have to wait for a slow peer
	stallLimit  = 2 * time.Minute // until a message that a peer does not read ends the session
	drainTime   = 3 * time.Second // of responses in progress when the gateway is stopped
	settleTime  = 2 * time.Second // until a provider reports the usage of a response that was cancelled
	goodbyeTime = 2 * time.Second // of an error event that ends the session
)

// Session is one session. Its fields are set before Run.
type Session struct {
	Client   *websocket.Conn
	Provider *websocket.Conn
	Model    string // by the provider's name
	Host     Host
	Window   int64 // the model's context window in tokens; 0: unknown

	ClientInbox, ProviderInbox upload.Body // for one message after the other

	mu      sync.Mutex // guards the fields below, and calls of Host
	account account
	asked   asked
	base    tokens // in the conversation, as reported with the last response
	added   tokens // since then
	active  map[string]*response
	done    chan struct{} // closed, and replaced, whenever a response is done
	silent  bool          // nothing is passed on to the client any more
	stopped bool          // no event is passed on to the provider any more

	pings   sync.WaitGroup
	passing atomic.Bool // the client is sent a message: nothing else of the provider is read meanwhile
}

// response is a response in progress.
type response struct {
	before       tokens // added to the conversation when it began
	input        tokens // that it reads
	text, speech int64  // bytes that have arrived
	tokenBytes   int64  // of speech
}

// Open reserves the first response. It is called before the handshakes: a key that cannot pay for one is refused. After it, Close must be called.
func (s *Session) Open(ctx context.Context) error {
	s.account = account{host: s.Host, window: s.Window, begun: map[string]Turn{}}
	s.asked.settings = settings{output: Unlimited, listens: true}
	return s.prepare(ctx)
}

// Close releases what is reserved and was not used.
func (s *Session) Close() { s.account.release() }

// Run relays until one side disconnects, ctx is done, the session is too old, or the host refuses it. It closes both connections and charges for responses
// in progress before it returns. The error is the provider's failure; nil if the session ended otherwise.
func (s *Session) Run(ctx context.Context) error {
	s.active, s.done = map[string]*response{}, make(chan struct{})
	s.account.window = s.Window
	s.Client.SetReadLimit(MaxMessage)
	s.Provider.SetReadLimit(MaxMessage)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ends := make(chan ending, 1)
	report := func(e ending) {
		select {
		case ends <- e:
		default: // the first one counts
		}
	}
	var tasks sync.WaitGroup
	start := func(f func(context.Context) ending) {
		tasks.Add(1)
		guard.Go(func() {
			defer tasks.Done()
			e := ending{code: websocket.StatusInternalError, reason: string(fault.Internal)} // of a panic
			defer func() { report(e) }()
			e = f(running)
		})
	}
	providerEnded := make(chan struct{})
	start(func(ctx context.Context) ending { return s.fromClient(ctx, report) })
	start(func(ctx context.Context) ending {
		defer close(providerEnded)
		return s.fromProvider(ctx, report)
	})
	start(s.watch)
	var e ending
	select {
	case e = <-ends:
	case <-ctx.Done():
		e = ending{code: websocket.StatusGoingAway, reason: "shutdown"}
	}
	s.end(running, e, providerEnded)
	cancel()
	tasks.Wait()
	s.pings.Wait() // not before the end: a ping that is interrupted closes its connection
	s.chargeRest(context.WithoutCancel(ctx), e.cut)
	return e.broken
}

// end tells the client and the provider that the session ends, and waits for the usage of responses in progress.
func (s *Session) end(ctx context.Context, e ending, providerEnded chan struct{}) {
	s.mu.Lock()
	s.silent, s.stopped = true, true
	s.mu.Unlock()
	n, done := s.inProgress()
	var told sync.WaitGroup
	told.Add(1)
	guard.Go(func() {
		defer told.Done()
		if e.fault != nil {
			out, cancel := context.WithTimeout(ctx, goodbyeTime)
			_ = s.Client.Write(out, websocket.MessageText, s.errorEvent(e.fault, "")) // the client may be gone
			cancel()
		}
		s.close(s.Client, e)
	})
	late := time.NewTimer(settleTime)
	defer late.Stop()
	if n > 0 {
		out, cancel := context.WithTimeout(ctx, settleTime)
		_ = s.Provider.Write(out, websocket.MessageText, []byte(`{"type":"response.cancel"}`)) // without it, what arrived is estimated
		cancel()
	}
	for n > 0 {
		select {
		case <-done:
			n, done = s.inProgress()
		case <-providerEnded:
			n = 0
		case <-late.C:
			n = 0
		}
	}
	s.close(s.Provider, ending{code: websocket.StatusNormalClosure})
	told.Wait()
}

// close closes a connection by a handshake; without an answer in time, at once.
func (s *Session) close(c *websocket.Conn, e ending) {
	late := time.AfterFunc(goodbyeTime, func() { _ = c.CloseNow() })
	defer late.Stop()
	_ = c.Close(e.code, e.reason) // it may be closed
}

// chargeRest charges for the responses whose end was not reported.
func (s *Session) chargeRest(ctx context.Context, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how := Cancelled
	if cut {
		how = Cut
	}
	for id, r := range s.active {
		_ = s.account.done(ctx, id, r.estimate(), how) // it logs its errors
		delete(s.active, id)
	}
}

// estimate is the usage of a response that was interrupted: its input, and the part of the answer that arrived.
func (r *response) estimate() *Usage {
	speech := (r.speech + r.tokenBytes - 1) / r.tokenBytes
	return &Usage{Text: r.input.text, Audio: r.input.audio, Output: (r.text+bytesPerToken-1)/bytesPerToken + speech, AudioOutput: speech, Estimated: true}
}

// inProgress returns the number of responses in progress or asked for, and a channel that is closed when one of them is done.
func (s *Session) inProgress() (n int, done chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active) + s.asked.waiting(), s.done
}

// watch pings both sides, so that neither they nor proxies in between end a silent session, and ends it when it must.
func (s *Session) watch(ctx context.Context) ending {
	check, ping, age := time.NewTicker(checkEvery), time.NewTicker(pingEvery), time.NewTimer(MaxAge)
	defer check.Stop()
	defer ping.Stop()
	defer age.Stop()
	lost := make(chan ending, 2*(pongTimeout/pingEvery+1)) // as many as there are pings
	var drainBy time.Time
	for {
		select {
		case <-ctx.Done():
			return ending{code: websocket.StatusNormalClosure}
		case <-age.C:
			return ending{code: websocket.StatusNormalClosure, reason: "session_expired", fault: fault.Newf(fault.RequestTimeout, "the session has reached its maximum duration of %s", MaxAge)}
		case e := <-lost:
			return e
		case <-ping.C:
			for _, c := range [...]*websocket.Conn{s.Client, s.Provider} {
				s.pings.Add(1)
				guard.Go(func() {
					defer s.pings.Done()
					ctx, cancel := context.WithTimeout(ctx, pongTimeout)
					defer cancel()
					if err := c.Ping(ctx); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
						lost <- s.lost(c)
					}
				})
			}
		case now := <-check.C:
			s.mu.Lock()
			err, n := s.Host.Check(ctx), len(s.active)
			s.mu.Unlock()
			if err == nil {
				continue
			}
			if drainBy.IsZero() {
				drainBy = now.Add(drainTime)
			}
			if n == 0 || !errors.Is(err, ErrDraining) || !now.Before(drainBy) {
				return refused(err)
			}
		}
	}
}

// lost is the ending of a session in which a side does not answer pings. While the client does not take a message, the provider's answers are not read.
func (s *Session) lost(c *websocket.Conn) ending {
	if c == s.Provider && !s.passing.Load() {
		return broken("the provider does not answer", errNoPong)
	}
	return ending{code: websocket.StatusGoingAway, reason: "ping_timeout"}
}

// receive reads a message into an inbox. late ends the session if the message does not arrive in time.
func receive(ctx context.Context, c *websocket.Conn, in *upload.Body, late func(*fault.Fault)) (kind websocket.MessageType, b []byte, err error) {
	kind, r, err := c.Reader(ctx)
	if err == nil {
		b, err = in.ReadMessage(r, late)
	}
	return kind, b, err
}

// fromClient passes the client's events on.
func (s *Session) fromClient(ctx context.Context, report func(ending)) ending {
	for {
		if e, over := s.relayClient(ctx, report); over {
			return e
		}
	}
}

// relayClient passes the client's next event on, unless it is refused. over is set if the session ends.
func (s *Session) relayClient(ctx context.Context, report func(ending)) (_ ending, over bool) {
	defer s.ClientInbox.Release()
	kind, b, err := receive(ctx, s.Client, &s.ClientInbox, func(f *fault.Fault) { report(refused(f)) })
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return refused(f), true
	}
	if err != nil {
		return leftBy(err), true
	}
	if kind != websocket.MessageText {
		return ending{code: websocket.StatusUnsupportedData, reason: "events are text"}, true
	}
	e, err := parseClient(b, s.Model)
	if err == nil && e.texts != nil {
		err = s.Host.Inspect(ctx, e.texts)
	}
	if err == nil {
		err = s.admit(ctx, &e)
	}
	if err != nil {
		f := fault.From(err)
		if f.Kind != fault.InvalidRequest && f.Kind != fault.RateLimited && f.Kind != fault.SecretInPrompt {
			return refused(err), true
		}
		if err := s.write(ctx, s.Client, s.errorEvent(f, e.id)); err != nil {
			return ending{code: websocket.StatusGoingAway}, true
		}
		return ending{}, false
	}
	if err := s.write(ctx, s.Provider, b); err != nil {
		return unsent(ctx, err), true
	}
	return ending{}, false
}

// write sends a message. A peer that reads slowly holds back the other one; a message that it does not read at all ends the session.
func (s *Session) write(ctx context.Context, c *websocket.Conn, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, stallLimit)
	defer cancel()
	return c.Write(ctx, websocket.MessageText, b)
}

// admit reserves what may follow from a client's event. While money is missing and a response is in progress it waits: the reservation of that one may be
// higher than its cost.
func (s *Session) admit(ctx context.Context, e *clientEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	asks := e.kind == createResponse
	if asks && s.asked.waiting()+len(s.active) >= maxResponses {
		return fault.Newf(fault.InvalidRequest, "%d responses are in progress or asked for: wait for one of them", maxResponses)
	}
	s.added.add(e.added)
	s.added.audio += e.audio / s.asked.settings.hears.bytes(inputTokenTime)
	if e.copies > 0 { // each may be the whole conversation
		s.added.most += min(e.copies*(s.base.most+s.added.most), maxCount)
	}
	s.asked.sent(e)
	for {
		if s.stopped {
			return fault.New(fault.Unavailable, "the session has ended", context.Canceled)
		}
		err := s.prepare(ctx)
		switch {
		case err == nil:
			return nil
		case fault.From(err).Kind == fault.RateLimited:
			if !asks {
				return nil // Begin refuses what follows
			}
			s.asked.unsent()
			return err
		case len(s.active) == 0:
			return err
		}
		if err := s.awaitDone(ctx); err != nil {
			return err
		}
	}
}

// awaitDone waits until a response is done; the caller holds mu.
func (s *Session) awaitDone(ctx context.Context) error {
	done := s.done
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "the session has ended", ctx.Err())
	}
}

// prepare reserves the responses that may begin next. The caller holds mu.
func (s *Session) prepare(ctx context.Context) error {
	return s.account.prepare(ctx, s.asked.outputs(), s.base.most+s.added.most)
}

// fromProvider passes the provider's events on, and charges for responses before their last event is passed on. After the session's end it only reads.
func (s *Session) fromProvider(ctx context.Context, report func(ending)) ending {
	for {
		if e, over := s.relayProvider(ctx, report); over {
			return e
		}
	}
}

// relayProvider passes the provider's next event on. over is set if no other can be read.
func (s *Session) relayProvider(ctx context.Context, report func(ending)) (_ ending, over bool) {
	defer s.ProviderInbox.Release()
	kind, b, err := receive(ctx, s.Provider, &s.ProviderInbox, func(*fault.Fault) { report(broken("the provider does not answer", errSlow)) })
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return refused(f), true
	}
	if err != nil {
		return endedBy(err), true
	}
	var end error
	if kind == websocket.MessageText {
		end = s.note(ctx, b)
	}
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	if silent {
		return ending{}, false
	}
	if err := s.pass(ctx, kind, b); err != nil {
		report(ending{code: websocket.StatusGoingAway})
		s.mu.Lock()
		s.silent = true
		s.mu.Unlock()
	}
	if end != nil {
		report(refused(end))
	}
	return ending{}, false
}

// pass sends a provider's message to the client.
func (s *Session) pass(ctx context.Context, kind websocket.MessageType, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, stallLimit)
	defer cancel()
	s.passing.Store(true)
	defer s.passing.Store(false)
	return s.Client.Write(ctx, kind, b)
}

// note reads what a provider's event says of responses. The error ends the session, after the event.
func (s *Session) note(ctx context.Context, b []byte) error {
	e := parseServer(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.kind == "session.created" || e.kind == sessionUpdated:
		s.asked.confirmed(e.settings, e.kind == sessionUpdated)
		if !s.stopped {
			_ = s.prepare(ctx) // tried again with the next event of the client
		}
	case e.kind == "response.created":
		return s.began(ctx, &e)
	case e.kind == "response.done":
		return s.ended(ctx, &e)
	case e.kind == "error" && e.code == activeResponse:
		s.asked.refused()
		s.changed()
	case e.response != "":
		if r := s.active[e.response]; r != nil {
			r.text, r.speech = r.text+e.text, r.speech+e.speech
		}
	}
	return nil
}

// began notes that a response began, and prepares the next one. If that fails, the session ends when the response is done. The caller holds mu.
func (s *Session) began(ctx context.Context, e *serverEvent) error {
	if s.active[e.response] != nil {
		return nil
	}
	r := &response{before: s.added, input: s.base, tokenBytes: s.asked.settings.speaks.bytes(outputTokenTime)}
	r.input.add(s.added)
	s.active[e.response] = r
	if err := s.account.begin(ctx, e.response, Need{s.base.most + s.added.most, s.asked.began(e.output)}); err != nil {
		return err
	}
	if !s.stopped {
		_ = s.prepare(ctx) // tried again when the response is done
	}
	return nil
}

// ended charges for a response. The caller holds mu.
func (s *Session) ended(ctx context.Context, e *serverEvent) error {
	r := s.active[e.response]
	if r == nil {
		return nil
	}
	u, how := e.usage, Complete
	if u == nil {
		u = r.estimate()
	}
	switch {
	case s.stopped:
		how = Cancelled
	case e.failed:
		how = Failed
	}
	err := s.account.done(ctx, e.response, u, how)
	delete(s.active, e.response)
	if !e.outside && e.usage != nil {
		s.added.sub(r.before)
		s.base = tokens{text: max(s.base.text, u.Text+u.Image+u.Output-u.AudioOutput), audio: max(s.base.audio, u.Audio+u.AudioOutput)}
		s.base.most = s.base.text + s.base.audio
		for _, other := range s.active { // what they had read is in base now
			other.before.sub(r.before)
		}
	}
	s.changed()
	if err != nil || s.stopped {
		return err
	}
	if err := s.prepare(ctx); err != nil && len(s.active) == 0 && fault.From(err).Kind != fault.RateLimited {
		return err
	}
	return nil
}

// changed wakes those who wait for the end of a response. The caller holds mu.
func (s *Session) changed() {
	close(s.done)
	s.done = make(chan struct{})
}

// errorEvent returns the event of an error; cause is the id of the client's event, "" for none.
func (s *Session) errorEvent(f *fault.Fault, cause string) []byte {
	body := map[string]json.RawMessage{}
	s.mu.Lock()
	err := json.Unmarshal(s.Host.Error(f), &body)
	s.mu.Unlock()
	if err != nil {
		body = map[string]json.RawMessage{"type": []byte(`"server_error"`), "message": []byte(`"the session ended in an error"`)}
	}
	id := []byte("null")
	if cause != "" {
		id, _ = json.Marshal(cause) // a string always marshals
	}
	body["event_id"] = id
	out, _ := json.Marshal(struct {
		Type    string                     `json:"type"`
		EventID string                     `json:"event_id"`
		Error   map[string]json.RawMessage `json:"error"`
	}{"error", "event_" + rand.Text(), body}) // raw messages that were unmarshalled
	return out
}
