package attempt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Sink decodes the answer of an attempt and passes it on. It is used by one goroutine.
type Sink interface {
	// Feed decodes the next chunk of the body; end marks the last one. b is valid during the call.
	Feed(ctx context.Context, b []byte, end bool)
	// Pass sends what was decoded to the client, after each Feed. done: the answer is complete; an error ends the request.
	Pass(ctx context.Context) (done bool, err error)
	// Failure returns why the answer failed (an error event, a decoding error, too long); nil if it did not.
	Failure() *upstream.Failure
	// Refusal returns the provider's error in an answer with a status other than 2xx. It is called once, after Feed.
	Refusal(status int) *chat.ProviderError
	// HasContent reports whether the answer has content yet: silence is an idle timeout from then on.
	HasContent() bool
	// LacksUsage reports whether the answer is complete except for the usage that it is billed by.
	LacksUsage() bool
}

// Wait configures how Do waits for the provider. The zero value waits in any way, without heartbeats.
type Wait struct {
	Beat        *Beat
	OnHeartbeat func() error // an error ends the request: its client has disconnected
	// Caller makes the call if RunsOnThread allows it; nil: Do may block.
	Caller stream.Caller
	Until  time.Time // the deadline of calls by a Caller
}

// Causes of an attempt's end, besides upstream.ErrTotalTimeout.
var (
	ErrFirstToken = errors.New("no content within the first-token time-out")
	ErrIdle       = errors.New("the stream fell silent")
)

// MaxErrorBody is the maximum number of bytes read of an error's body.
const MaxErrorBody = 1 << 20

// maxUsageLag is how long the usage of an answer is awaited after its client has disconnected (D-81).
const maxUsageLag = 2 * time.Second

// Do makes an attempt through Envoy's egress listener, or by wait.Caller, and feeds the answer to the sink that open returns for the answer's head.
// No other function calls a candidate and reads its answer. A failure means that another attempt may be made; an error means that the request is
// over: ctx was cancelled with another cause than upstream.ErrTotalTimeout, the sink returned an error, or there was a panic (PanicError; a panic in
// a call by wait.Caller propagates to Do's caller). If both are nil, the answer is complete.
func (w *Writer) Do(ctx context.Context, t *Attempt, open func(status int, h header.List) Sink, wait Wait) (*upstream.Failure, error) {
	if wait.Caller != nil {
		return w.doOnThread(ctx, t, open, wait)
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // it may outlive the client: see awaitUsage
	defer cancel(nil)
	c := &call{w: w, t: t, wait: wait, client: ctx, ctx: own, cancel: cancel, beats: wait.Beat.C()}
	c.limit = time.AfterFunc(t.View.AttemptTimeout(t.To), func() { cancel(ErrFirstToken) })
	defer c.limit.Stop()
	c.stop = make(chan struct{})
	go c.run()
	defer close(c.stop)
	defer c.ends()
	f, err := c.do(open)
	c.noteUnserved(f)
	return f, err
}

// do makes the attempt. A panic is returned as an error of the request.
func (c *call) do(open func(int, header.List) Sink) (f *upstream.Failure, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, PanicError{c.w.Owner.Panicked(r)}
		}
	}()
	resp, f, err := c.head() //nolint:bodyclose // read closes it, or refusal
	switch {
	case f != nil || err != nil:
		return f, err
	case resp.StatusCode/100 != 2:
		return c.refusal(resp, open)
	}
	h := upstream.HeaderList(resp.Header)
	if f := c.t.View.Unconfirmed(c.t.To.Provider, h); f != nil {
		upstream.CloseBody(resp)
		return f, nil
	}
	if c.t.Sealed != nil {
		return c.readSealed(resp, h, open)
	}
	if c.t.Proof == nil {
		return c.read(resp.Body, open(resp.StatusCode, h))
	}
	return c.readAttested(resp, h, open)
}

// call is one run of Do.
type call struct {
	w           *Writer
	t           *Attempt
	wait        Wait
	client, ctx context.Context // the request's, and the attempt's
	cancel      context.CancelCauseFunc
	beats       <-chan time.Time
	limit       *time.Timer // until the first content, then until the next
	limitAt     time.Time   // the same on a thread
	trailers    func() header.List
	payer       runtime.Payer // the payer that was asked to pay for the call; nil: none

	watch
	buf    []byte
	filled bool // by the last chunk
}

// head sends the attempt and waits for the answer's head.
func (c *call) head() (*http.Response, *upstream.Failure, error) {
	req, err := c.w.request(c.ctx, c.t)
	if err != nil {
		return nil, c.failure(upstream.NotEncoded, err), nil
	}
	resp, paid, err := c.send(req)
	c.t.Paid = paid
	switch {
	case err == nil:
		return resp, nil, nil
	case isUnpaid(err):
		return nil, c.failure(upstream.Unpaid, err), nil
	case c.ctx.Err() != nil:
		f, err := c.interrupted(c.ctx, false)
		return nil, f, err
	}
	return nil, c.failure(upstream.Reset, err), nil
}

// refusal reads the error of an attempt that was refused before its answer began.
func (c *call) refusal(resp *http.Response, open func(int, header.List) Sink) (*upstream.Failure, error) {
	defer upstream.CloseBody(resp)
	if reason := resp.Header.Get(state.HeaderFailure); reason != "" {
		return upstream.Local(c.t.To.Provider, resp.StatusCode, reason), nil
	}
	var body []byte
	if resp.StatusCode >= http.StatusOK { // a lower status has no body
		var err error
		if body, err = io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody)); err != nil {
			if c.ctx.Err() != nil {
				return c.interrupted(c.ctx, false)
			}
			return c.failure(upstream.Reset, err), nil
		}
	}
	sink := open(resp.StatusCode, upstream.HeaderList(resp.Header))
	sink.Feed(c.client, body, true)
	return upstream.Stated(c.t.To.Provider, sink.Refusal(resp.StatusCode)), nil
}

// read feeds a body to the sink until the answer is complete.
func (c *call) read(body io.ReadCloser, sink Sink) (*upstream.Failure, error) {
	defer func() { _ = body.Close() }() // nothing is lost: the answer is complete, or abandoned
	c.begins(sink)
	for {
		p := c.next(body)
		done, f, err := c.take(p, sink)
		switch {
		case done && c.t.Proof != nil:
			return c.attested(body, p.end)
		case f != nil && err == nil && c.t.Proof != nil:
			return c.failedAttested(body, p.end, f)
		case done && !p.end:
			c.finish(body)
		}
		if done || f != nil || err != nil {
			return f, err
		}
	}
}

// take feeds one chunk of a body to the sink, under the lock.
func (c *call) take(p chunk, sink Sink) (done bool, f *upstream.Failure, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil:
		f, err = c.interrupted(c.ctx, sink.HasContent())
		return false, f, err
	case !c.usageOnly:
		return c.chunk(p, sink)
	}
	if sink.Feed(c.ctx, p.b, p.end); !p.end && sink.LacksUsage() {
		return false, nil, nil
	}
	f, err = c.interrupted(c.client, sink.HasContent())
	return false, f, err
}

// chunk feeds one chunk of a body to the sink.
func (c *call) chunk(p chunk, sink Sink) (done bool, f *upstream.Failure, err error) {
	if c.t.Proof != nil {
		c.t.Proof.Write(p.b)
	}
	sink.Feed(c.client, p.b, p.end)
	if sink.HasContent() && c.t.View.Request.Stream {
		c.restartLimit(c.t.View.Config.Timeouts.Idle) // from here on, expiry means silence within the answer
	}
	if done, err = sink.Pass(c.client); done || err != nil {
		return done, nil, err
	}
	if f := sink.Failure(); f != nil {
		return false, f, nil
	}
	switch {
	case p.err != nil:
		return false, c.failure(upstream.Reset, p.err), nil //nolint:nilerr // the failure has it
	case p.end:
		return false, c.failure(upstream.Reset, io.ErrUnexpectedEOF), nil
	}
	return false, nil, nil
}

func (c *call) restartLimit(d time.Duration) {
	if c.limit == nil {
		c.limitAt = time.Now().Add(d)
		return
	}
	c.limit.Reset(d)
}

// interrupted maps the cause of a context's end: a timeout of the gateway is a failure, a client disconnect an error.
func (c *call) interrupted(ctx context.Context, hasContent bool) (*upstream.Failure, error) {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrFirstToken) && hasContent {
		cause = ErrIdle
	}
	if errors.Is(cause, ErrFirstToken) || errors.Is(cause, ErrIdle) || errors.Is(cause, upstream.ErrTotalTimeout) {
		return c.failure(upstream.TimedOut, cause), nil
	}
	return nil, cause
}

func (c *call) failure(kind upstream.Kind, cause error) *upstream.Failure {
	return &upstream.Failure{Provider: c.t.To.Provider, Kind: kind, Cause: cause}
}

// request returns an attempt's HTTP request to Envoy's egress listener.
func (w *Writer) request(ctx context.Context, t *Attempt) (*http.Request, error) {
	c, err := w.Write(nil, t)
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(c.Path, "?")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://egress"+path, bytes.NewReader(c.Body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = query
	req.Host = c.authority
	set, _ := c.Headers(nil)
	for _, f := range set {
		if f.Name[0] != ':' && f.Name != "content-length" {
			req.Header.Set(f.Name, f.Value)
		}
	}
	v := t.View
	req.Header.Set("User-Agent", v.Head.Header.Get("user-agent"))
	req.Header.Set(state.HeaderCluster, state.Cluster(v.Config.Provider(t.To.Provider).Cluster))
	if v.Config.Provider(t.To.Provider).Spread {
		for _, f := range v.AffinityHeader() {
			req.Header.Set(f.Name, f.Value)
		}
	}
	req.Header.Set(state.HeaderExchange, v.Config.EgressSecret+"."+v.ID)
	return req, nil
}

// needsListener reports whether an attempt must use the egress listener although Envoy's clusters can be called from the thread. A call of a cluster
// ends with its client's connection, has no endpoint affinity, and gets no trailers. So the listener is needed
//   - for streams of thinking models: after a client disconnect they are read on for their usage (see awaitUsage);
//   - for conversations with affinity to one of several endpoints;
//   - for attested answers, which may end in trailers.
func (w *Writer) needsListener(v *request.View, to *policy.Resolution) bool {
	spread := v.Config.Provider(to.Provider).Spread && v.Affinity.Hash != 0
	proof, _ := v.Attests(to)
	return proof != nil || spread || v.Request.Stream && v.Terms(to).Thinks
}

// clientFor returns the HTTP client of an attempt.
func (w *Writer) clientFor(t *Attempt) *http.Client {
	if w.Listener != nil && w.needsListener(t.View, &t.To) {
		return w.Listener
	}
	return w.Client
}
