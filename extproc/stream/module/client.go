package module

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// client is one request: a stream.Client over the filter of one HTTP stream. Hooks and posted work run on the worker's thread; Serve runs in a
// goroutine of its own, or in a coroutine on that thread.
type client struct {
	head     stream.Head
	bodyless bool
	ctx      context.Context
	cancel   context.CancelFunc

	// Used on the worker's thread.
	f            handle // not valid after the stream has ended
	w            *worker
	co           *coroutine.Coroutine // nil while a goroutine serves the request
	place        coroutine.Place      // state in the worker's batch
	in           hook                 // the current hook
	continued    bool                 // the current hook may continue
	forwarded    bool                 // Envoy forwards the request
	planned      int                  // maximum number of Envoy's attempts
	requestEnded bool
	endPassed    bool             // the request's last piece was passed on
	taking       bool             // the hook is called for data that waits in Envoy
	calls        map[uint64]*call // in flight
	starting     *call            // its hooks may run before its id is known
	alarm        alarm
	taken        int // bytes of calls read since the coroutine was resumed

	// Used by the goroutine or coroutine.
	step  func() error // the function that it runs
	sent  bool         // part of an answer was sent to Envoy: no other answer is possible
	begun bool         // the head of an answer was sent to the client

	mu        sync.Mutex
	scheduler scheduler // used under the lock, while the stream exists
	ended     bool
	due       bool // the scheduler will call back
	posted    []posted
	events    []event
	queued    int  // bytes in events
	held      bool // pieces of the request wait in Envoy
	above     int  // number of watermarks that the answer exceeds
	unread    int  // bytes of the answer that were sent above them
	ahead     int  // bytes of the answer that are posted
	note      chan struct{}
}

var _ stream.Client = (*client)(nil)

// hook is a hook of a client's filter, by the operations that it allows.
type hook uint8

const (
	inNone hook = iota
	inRequest
	inRequestEnd // the hook of the request's last piece
	inAnswerEnd  // the hook of the answer's last piece
	inOther
)

// posted is work for the worker's thread: at is the hook's body that it runs in, or outsideHooks. done is closed when it has run, or never will.
type posted struct {
	run  func(at int)
	size int // bytes of an answer
	done chan struct{}
}

// exchangeKey is the key of a client in its request's context.
type exchangeKey struct{}

func newClient(f handle, w *worker, hd stream.Head, bodyless bool) *client {
	d := &client{f: f, w: w, head: hd, bodyless: bodyless, requestEnded: bodyless, note: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.WithValue(context.Background(), exchangeKey{}, d))
	d.scheduler = f.newScheduler()
	d.step = func() error { return process.app.Serve(d.ctx, d, d.head, d.bodyless) }
	return d
}

// begin starts serving the request.
func (d *client) begin() {
	process.app.Opened()
	if d.isShort() {
		d.w.begin(d)
		return
	}
	coroutine.Dispatch(d)
}

// isShort reports whether a coroutine may serve the request.
func (d *client) isShort() bool { return d.head.IsShort(d.bodyless) }

// Serve implements coroutine.Task. It ends the request if the handler did not.
func (d *client) Serve() (leaves bool) {
	defer func() {
		if v := recover(); v != nil {
			logf(levelError, "a panic: %v\n%s", v, debug.Stack())
			process.app.Panicked(v)
			d.abort(panicReply(&d.head))
		}
		if !leaves {
			d.cancel()
			process.app.Closed()
		}
	}()
	err := d.step()
	if l, ok := errors.AsType[*stream.Leaving](err); ok {
		d.step = l.Rest
		return true
	}
	switch {
	case err == nil && d.sent, errors.Is(err, stream.ErrDisconnected):
	case errors.Is(err, stream.ErrTruncated):
		d.reset()
	default:
		d.abort(stream.Reply{Status: http.StatusServiceUnavailable})
	}
	return false
}

// Leave implements stream.Client.
func (d *client) Leave(f func() error) error {
	if d.co == nil {
		return f()
	}
	return &stream.Leaving{Rest: f}
}

// Response code details. For details that do not begin with "bardo", Envoy's mapping of local replies adds a body in the client's format.
const (
	detailsAnswer = "bardo"
	detailsError  = "module_error"
)

// abort ends a request that has no complete answer. A reply without a body gets one by Envoy's mapping of local replies.
func (d *client) abort(r stream.Reply) {
	if d.begun {
		d.reset()
		return
	}
	details := detailsAnswer
	if len(r.Body) == 0 {
		details = detailsError
	}
	_ = d.reply(r, details)
}

// reset ends the client's stream immediately.
func (d *client) reset() { _ = d.do(posted{run: func(int) { d.f.reset() }}, false) }

// receives reports whether the hook may take the new piece; otherwise it waits in Envoy, which stops reading from the client.
func (d *client) receives(end bool) bool {
	d.requestEnded = d.requestEnded || end
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queued >= maxQueued {
		d.held = true
	}
	return !d.held
}

// maxQueued is the maximum number of unread bytes of a request in Go's memory.
const maxQueued = 1 << 20

// push delivers an event from a hook.
func (d *client) push(in hook, e event) {
	d.mu.Lock()
	d.events = append(d.events, e)
	d.queued += len(e.body)
	d.mu.Unlock()
	d.continued = false
	switch {
	case d.place.Ready():
	case d.co != nil && d.w.isBusy():
		d.w.batch.defers(d)
	default:
		d.within(in, d.notify)
	}
}

// came resumes a coroutine for which part of a call has arrived, at the end of the iteration. Not earlier: the resumed code may end the stream that
// delivered it. A disconnected client has no scheduler any more, and waits for nothing.
func (d *client) came() {
	if d.co != nil && !d.ended {
		d.w.batch.defers(d)
	}
}

// within runs f, and the coroutines that its operations resumed, as in a hook of this filter.
func (d *client) within(in hook, f func()) {
	outer := d.in
	d.in = in
	f()
	d.w.runLater()
	d.in = outer
}

// notify resumes the request, on the worker's thread.
func (d *client) notify() {
	if d.co != nil {
		d.w.resume(d)
		return
	}
	select {
	case d.note <- struct{}{}:
	default:
	}
}

// leave handles the end of Envoy's stream; d.f is not valid when it returns. A request that has not begun yet begins now, so that it is recorded.
func (d *client) leave() {
	d.mu.Lock()
	d.ended = true
	rest := d.posted
	d.posted = nil
	d.scheduler.delete()
	d.mu.Unlock()
	for _, p := range rest {
		p.finish()
	}
	for _, k := range d.calls {
		k.abandonLater()
	}
	d.cancel()
	if d.w.batch.remove(d) {
		process.app.Opened()
		coroutine.Dispatch(d)
		return
	}
	d.notify()
}

func (p *posted) finish() {
	if p.done != nil {
		close(p.done)
	}
}

func (d *client) watermark(change int) {
	d.mu.Lock()
	if d.above += change; d.above <= 0 {
		d.unread = 0
	}
	d.mu.Unlock()
	if d.co != nil { // Envoy does not expect its callback to send
		d.post(posted{run: func(int) {}})
		return
	}
	d.notify()
}

// do runs p on the worker's thread. With borrows it returns only when p has run, or never will. A coroutine is on that thread: it runs p itself,
// within a hook only if that hook is in fits.
func (d *client) do(p posted, borrows bool, fits ...hook) error {
	if d.co != nil && !d.ended {
		switch {
		case d.w.batch.takes(d, p, borrows):
			return nil
		case d.in == inNone || slices.Contains(fits, d.in):
			d.runNow(p)
			return nil
		}
	}
	if borrows {
		p.done = make(chan struct{})
	}
	if !d.post(p) {
		return stream.ErrDisconnected
	}
	switch {
	case borrows && d.co != nil:
		return d.await(0, func() bool { return isClosed(p.done) })
	case borrows:
		<-p.done
	}
	return nil
}

// runNow runs p, within a hook or outside.
func (d *client) runNow(p posted) {
	at := outsideHooks
	switch d.in {
	case inNone:
		p.run(at)
		return
	case inRequestEnd:
		at = receivedRequest
	case inAnswerEnd:
		at = receivedAnswer
	case inRequest, inOther:
	}
	d.in = inOther // what follows has to wait for the end of the hook
	p.run(at)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// post queues p, from any goroutine. It reports whether the stream still exists.
func (d *client) post(p posted) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	d.posted = append(d.posted, p)
	d.ahead += p.size
	if !d.due {
		d.due = true
		d.scheduler.commit(eventPosted)
	}
	return true
}

// runPosted runs the posted work. Each item may end the stream, which invalidates d.f.
func (d *client) runPosted() {
	d.mu.Lock()
	all := d.posted
	d.posted, d.due = nil, false
	d.mu.Unlock()
	sent := 0
	for i := range all {
		if p := &all[i]; !d.isGone() {
			p.run(outsideHooks)
			sent += p.size
		}
		all[i].finish()
	}
	if sent > 0 {
		d.mu.Lock()
		d.ahead -= sent
		d.mu.Unlock()
	}
	d.notify()
}

func (d *client) isGone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// errLate is returned when a wait times out.
var errLate = errors.New("nothing came in time")

// await waits until ready, which runs under the lock, returns true.
func (d *client) await(timeout time.Duration, ready func() bool) error {
	var t timer
	defer t.stop()
	for {
		d.mu.Lock()
		ok, ended := ready(), d.ended
		d.mu.Unlock()
		switch {
		case ok:
			return nil
		case ended:
			return stream.ErrDisconnected
		case t.late():
			return errLate
		}
		t.start(timeout, d)
		if d.co != nil {
			d.co.Wait()
			continue
		}
		select {
		case <-d.note:
		case <-t.fired:
		}
	}
}

// next waits for the next event. Events before a client disconnect come first.
func (d *client) next(timeout time.Duration) (e event, err error) {
	take := false
	err = d.await(timeout, func() bool {
		if len(d.events) == 0 {
			return false
		}
		e = d.events[0]
		d.events[0] = event{}
		d.events = d.events[1:]
		d.queued -= len(e.body)
		take = d.held && d.queued == 0
		if take {
			d.held = false
		}
		return true
	})
	if take {
		d.post(posted{run: d.take}) // after the end of the stream there is nothing to take
	}
	return e, err
}

// take reads the part of the request that waits in Envoy. The hook of a later piece may have taken it meanwhile: otherwise a second end of the
// request would arrive while its answer is awaited.
func (d *client) take(int) {
	if d.endPassed {
		return
	}
	d.taking = true
	d.f.take()
	d.taking = false
}

// RequestBody implements stream.Client.
func (d *client) RequestBody(u stream.RequestBody) error {
	for {
		e, err := d.next(u.Wait())
		switch {
		case errors.Is(err, errLate):
			u.TimedOut(d.Reply)
			return stream.ErrAnswered
		case err != nil:
			return err
		}
		switch e.kind {
		case requestBody:
			err := u.Add(e.body)
			e.release()
			if err != nil || e.end {
				return err
			}
		case requestTrailers:
			// Envoy would send trailers after a body with a content-length, where the provider expects the next request.
			return fault.Newf(fault.InvalidRequest, "the request ends in trailers, which are not supported: send it without them")
		default:
			return fmt.Errorf("%s while reading a request body", e.kind)
		}
	}
}

// maxCopy is the maximum size of a body that is copied, so that the goroutine need not wait until it is sent.
const maxCopy = 64 << 10

// borrow returns b, or a copy of it; borrows is true if it is b.
func borrow(b []byte) (own []byte, borrows bool) {
	if len(b) > maxCopy {
		return b, true
	}
	return append([]byte(nil), b...), false
}

// Reply implements stream.Client.
func (d *client) Reply(r stream.Reply) error { return d.reply(r, detailsAnswer) }

func (d *client) reply(r stream.Reply, details string) error {
	d.sent, d.begun = true, true
	body, borrows := borrow(r.Body)
	set := pack(r.Header, nil)
	return d.do(posted{run: func(int) { d.f.reply(r.Status, set, body, details) }}, borrows, inRequest, inRequestEnd)
}

// Forward implements stream.Client.
func (d *client) Forward(f stream.Forward) error {
	d.sent = true
	body, borrows := borrow(f.Body)
	set, order := pack(f.Set, f.Remove), stream.PriorityGroups(nil, f.Clusters)
	return d.do(posted{run: func(at int) {
		d.forwarded, d.planned, d.continued = true, len(f.Clusters), at != outsideHooks
		d.f.forward(set, body, order, f.Exchange, at)
	}}, borrows, inRequestEnd)
}

// Next implements stream.Client. The caller owns the result.
func (d *client) Next() (stream.Piece, error) {
	for {
		e, err := d.next(0)
		if err != nil {
			return stream.Piece{}, err
		}
		switch e.kind {
		case answerHead:
			return stream.Piece{Head: e.head, End: e.end}, nil
		case answerBody:
			return stream.Piece{Body: e.body, End: e.end}, nil
		case requestTrailers:
			// Trailers after the request was forwarded.
		case requestBody:
			return stream.Piece{}, fmt.Errorf("%s while waiting for an answer", e.kind)
		}
	}
}

// viaUpstream is the value of response code details for a provider's answer.
const viaUpstream = "via_upstream"

// answerHeadOf reads Envoy's attributes of an answer to a request with planned attempts. Within a hook.
func answerHeadOf(f handle, h header.List, details string, planned int) *stream.AnswerHead {
	a := &stream.AnswerHead{Header: h, Cluster: f.cluster(), Details: details}
	a.Status, _ = strconv.Atoi(h.Get(":status"))
	a.Attempts, _ = strconv.Atoi(h.Get("x-envoy-attempt-count"))
	a.Attempts = max(a.Attempts, 1)
	noted := a.Attempts
	if details != viaUpstream { // Envoy's own answer does not have the number of attempts
		noted = max(noted, planned)
	}
	if noted > 1 && noted <= maxOutcomes {
		a.Outcomes = make([]string, noted)
		for i := range a.Outcomes {
			a.Outcomes[i] = f.noted(state.KeyAttempt + strconv.Itoa(i+1))
		}
	}
	return a
}

// maxOutcomes is the maximum number of attempts whose outcomes are read.
const maxOutcomes = 64

// Answer implements stream.Client.
func (d *client) Answer(r stream.Reply, remove []string) error {
	d.sent, d.begun = true, true
	body, borrows := borrow(r.Body)
	set := pack(append(header.List{{Name: ":status", Value: strconv.Itoa(r.Status)}}, r.Header...), remove)
	return d.do(posted{run: func(at int) {
		d.continued = at != outsideHooks
		d.f.answer(set, body, at)
	}}, borrows, inAnswerEnd)
}

// StreamHead implements stream.Client.
func (d *client) StreamHead(code int, h header.List) error {
	d.sent, d.begun = true, true
	set := pack(append(header.List{{Name: ":status", Value: strconv.Itoa(code)}}, h...), nil)
	return d.do(posted{run: func(int) { d.f.streamHead(set) }}, false)
}

// maxAhead is the maximum number of an answer's bytes that wait for the worker.
const maxAhead = 256 << 10

// maxUnread is the maximum number of an answer's bytes that Envoy buffers for a client that does not read: more than the largest charged answer, so
// that no reservation lasts until the client reads or disconnects. Longer answers, such as files, wait for the client.
const maxUnread = 40 << 20

// StreamBody implements stream.Client. It blocks while the client reads too slowly.
func (d *client) StreamBody(b []byte, end bool) error {
	err := d.await(0, func() bool {
		ready := (d.above <= 0 || d.unread+len(b) <= maxUnread) && d.ahead < maxAhead
		if ready && d.above > 0 {
			d.unread += len(b)
		}
		return ready
	})
	if err != nil {
		return err
	}
	own := append([]byte(nil), b...)
	return d.do(posted{run: func(int) { d.f.streamBody(own, end) }, size: len(own)}, false)
}

// StreamTrailers implements stream.Client.
func (d *client) StreamTrailers(h header.List) error {
	set := pack(h, nil)
	return d.do(posted{run: func(int) { d.f.streamTrailers(set) }}, false)
}
