package module

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// MaxBuffered is the maximum number of unread bytes of an answer. Envoy does not apply back pressure to a provider for a module.
const MaxBuffered = 64 << 20

// Transport makes requests through Envoy's clusters, as the egress listener does: state.HeaderCluster names the cluster. The context of a request
// must be that of an exchange of this module, or derived from it: the exchange's filter makes the call, which ends when the client disconnects.
// Redirects, retries and compression are left to the caller.
func Transport() http.RoundTripper { return transport{} }

type transport struct{}

// errNoExchange is returned for requests outside of an exchange, such as probes.
var errNoExchange = errors.New("the request's context belongs to no exchange of Envoy's")

// RoundTrip implements http.RoundTripper.
func (transport) RoundTrip(req *http.Request) (*http.Response, error) {
	d, ok := req.Context().Value(exchangeKey{}).(*client)
	if !ok {
		return nil, errNoExchange
	}
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	h := callHeaders(req, len(body))
	k := &call{client: d, note: make(chan struct{}, 1), ctx: req.Context(), named: isNamed(h)}
	cluster, set := req.Header.Get(state.HeaderCluster), pack(h, nil)
	if !d.post(posted{run: func(int) { d.start(k, cluster, set, body) }}) {
		k.abandonLater()
	}
	if err := k.awaitHead(); err != nil {
		k.cancel()
		return nil, err
	}
	return k.response(req), nil
}

func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	if req.ContentLength <= 0 {
		return io.ReadAll(req.Body)
	}
	b := make([]byte, req.ContentLength)
	_, err := io.ReadFull(req.Body, b)
	return b, err
}

// callHeaders returns a request's headers as Envoy takes them, without the gateway's internal ones.
func callHeaders(req *http.Request, length int) header.List {
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	out := append(make(header.List, 0, len(req.Header)+5),
		header.Field{Name: ":method", Value: req.Method}, header.Field{Name: ":path", Value: req.URL.RequestURI()},
		header.Field{Name: ":scheme", Value: "http"}, header.Field{Name: ":authority", Value: host})
	for k, values := range req.Header {
		name := strings.ToLower(k)
		switch name {
		case state.HeaderCluster, state.HeaderExchange, state.HeaderAffinity, "connection", "content-length", "transfer-encoding":
			continue
		}
		for _, v := range values {
			if v != "" {
				out = append(out, header.Field{Name: name, Value: v})
			}
		}
	}
	if length > 0 || req.Method == http.MethodPost || req.Method == http.MethodPut || req.Method == http.MethodPatch {
		out = append(out, header.Field{Name: "content-length", Value: strconv.Itoa(length)})
	}
	return out
}

// start begins a call, on the worker's thread.
func (d *client) start(k *call, cluster string, set, body []byte) {
	if k.ended() {
		return // cancelled meanwhile
	}
	d.starting = k
	id, code := d.f.startCall(cluster, set, body)
	d.starting = nil
	switch {
	case d.isGone():
		k.abandonLater()
	case code == clusterNotFound:
		k.begin(header.List{{Name: ":status", Value: "503"}}, false) // the form of Envoy's own answers
		k.add([]byte("cluster_not_found"), true)
	case code != 0:
		k.fail(fmt.Errorf("envoy did not start the stream: %d", code))
	case !k.ended():
		if d.calls == nil {
			d.calls = map[uint64]*call{}
		}
		k.id = id
		d.calls[k.id] = k
	}
}

// clusterNotFound is a result of start_http_stream.
const clusterNotFound = 2

// call returns the call in flight with an id; nil for one that has ended.
func (d *client) call(id uint64) *call {
	if k := d.calls[id]; k != nil {
		return k
	}
	return d.starting
}

// call is one request of a Transport, and the body of its answer. The hooks write it, one goroutine reads it.
type call struct {
	client *client
	local  bool // read by a coroutine
	named  bool // the provider's host is a name, not an address
	ctx    context.Context
	id     uint64 // used on the worker's thread
	rest   []byte // the rest of a piece that Read did not return yet

	mu     sync.Mutex
	head   header.List // nil before the answer begins
	chunks [][]byte
	size   int
	end    bool
	err    error // why the answer ended
	note   chan struct{}
}

// begin receives the head of the answer.
func (k *call) begin(h header.List, end bool) {
	k.mu.Lock()
	k.head, k.end = h, end
	k.mu.Unlock()
	k.changed(end)
}

// add receives a piece of the answer; it returns false if too much of it is unread.
func (k *call) add(b []byte, end bool) bool {
	k.mu.Lock()
	if k.size += len(b); k.size > MaxBuffered {
		k.err = fmt.Errorf("more than %d bytes of the answer wait for the client", MaxBuffered)
	} else if len(b) > 0 {
		k.chunks = append(k.chunks, b)
	}
	k.end = k.end || end
	tooMuch := k.err != nil
	k.mu.Unlock()
	k.changed(end || tooMuch)
	return !tooMuch
}

// fail ends the answer.
func (k *call) fail(err error) {
	k.mu.Lock()
	if !k.end && k.err == nil {
		k.err = err
	}
	k.mu.Unlock()
	k.changed(true)
}

// changed notifies the reader, on the worker's thread; over: nothing more follows.
func (k *call) changed(over bool) {
	if over && k.id != 0 {
		delete(k.client.calls, k.id)
	}
	k.nudge()
}

// grace is how long a reset call waits for its caller to cancel it, after the client has disconnected. The caller learns of the disconnect from the
// request's context, and must not take the reset for a failure of the provider.
const grace = 3 * time.Second

// abandonLater ends a call that Envoy has reset because its client disconnected. For any goroutine.
func (k *call) abandonLater() {
	if k.local { // a coroutine learns of the disconnect immediately
		return
	}
	time.AfterFunc(grace, guard.Func(func() {
		k.mu.Lock()
		if !k.end && k.err == nil {
			k.err = stream.ErrDisconnected
		}
		k.mu.Unlock()
		k.nudge()
	}))
}

func (k *call) nudge() {
	if k.local {
		k.client.came()
		return
	}
	select {
	case k.note <- struct{}{}:
	default:
	}
}

func (k *call) ended() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.end || k.err != nil
}

// cancel resets a call in flight.
func (k *call) cancel() {
	k.mu.Lock()
	over := k.end || k.err != nil
	if !over {
		k.err = context.Canceled
	}
	k.mu.Unlock()
	if !over {
		k.nudge() // unblocks a pending Read
		k.client.post(posted{run: k.reset})
	}
}

func (k *call) reset(int) {
	if k.client.calls[k.id] == k {
		delete(k.client.calls, k.id)
		k.client.f.resetCall(k.id)
	}
}

// await waits until ready, which runs under the lock, returns true.
func (k *call) await(ready func() bool) error {
	for {
		k.mu.Lock()
		ok := ready()
		k.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-k.note:
		case <-k.ctx.Done():
			return context.Cause(k.ctx)
		}
	}
}

// awaitHead waits for the answer's head; for Envoy's own answer also for its body, which has the reason.
func (k *call) awaitHead() error {
	if err := k.await(func() bool { return k.head != nil || k.err != nil }); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.head == nil {
		return k.err
	}
	return nil
}

// serviceTime is a header that Envoy adds to answers of providers, but not to its own.
const serviceTime = "x-envoy-upstream-service-time"

// response returns the answer whose head has arrived.
func (k *call) response(req *http.Request) *http.Response {
	r := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header, len(k.head)), ContentLength: -1, Body: k, Request: req}
	own := true
	for _, f := range k.head {
		switch f.Name {
		case ":status":
			r.StatusCode, _ = strconv.Atoi(f.Value)
		case serviceTime:
			own = false
		case state.HeaderFailure: // only valid in Envoy's own answers
		case "content-length":
			if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil {
				r.ContentLength = n
			}
			r.Header.Add(f.Name, f.Value)
		default:
			r.Header.Add(f.Name, f.Value)
		}
	}
	r.Status = strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode)
	if own {
		r.Header.Set(state.HeaderFailure, k.why())
	}
	return r
}

// isNamed reports whether the host of a call is a name.
func isNamed(h header.List) bool {
	host := h.Get(":authority")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err != nil
}

// why returns the reason of an answer by Envoy itself, in the form of its response code details. Its body arrives with its head, and contains the
// transport's reason, as configured in the bootstrap. It omits the address; for a name without an address Envoy connects to a port that refuses.
func (k *call) why() string {
	body, _ := io.ReadAll(k)
	_, reason, ok := strings.Cut(string(body), "reset reason: ")
	if ok {
		reason = strings.Replace(reason, ", transport failure reason: ", "|", 1)
		if k.named {
			reason = strings.Replace(reason, "Connection refused", policy.RefusedOrNoAddress, 1)
		}
		return "upstream_reset_before_response_started{" + strings.ReplaceAll(reason, " ", "_") + "}"
	}
	return strings.ReplaceAll(string(body), " ", "_")
}

// Read implements io.Reader.
func (k *call) Read(b []byte) (int, error) {
	if len(k.rest) == 0 {
		if err := k.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// fill waits for the next piece. A truncated answer ends after its received part.
func (k *call) fill() error {
	if err := k.await(func() bool { return len(k.chunks) > 0 || k.end || k.err != nil }); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(k.chunks) > 0:
		k.rest = k.first()
		return nil
	case k.err != nil:
		return k.err
	}
	return io.EOF
}

// first takes the first unread piece.
func (k *call) first() []byte {
	b := k.chunks[0]
	k.chunks[0] = nil
	k.chunks = k.chunks[1:]
	k.size -= len(b)
	return b
}

// Close implements io.Closer.
func (k *call) Close() error {
	k.cancel()
	return nil
}
