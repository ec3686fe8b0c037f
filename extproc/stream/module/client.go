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

// client is one request: a stream.Client over the filter of one HTTP stream. The hooks and what is posted run on the worker's thread; Serve runs in a
// goroutine of its own, or in a coroutine on that thread.
type client struct {
	head     stream.Head
	bodyless bool
	ctx      context.Context
	cancel   context.CancelFunc

	// Of the worker's thread.
	f            handle // not valid once gone
	w            *worker
	co           *coroutine.Coroutine // nil while a goroutine serves the request
	place        coroutine.Place      // in the worker's batch
	in           hook                 // the hook under way
	continued    bool                 // the hook under way may continue
	forwarded    bool                 // Envoy carries the request
	planned      int                  // how many attempts Envoy may make
	requestEnded bool
	endPassed    bool             // the request's last piece was passed on
	taking       bool             // the hook is called for what waits in Envoy
	calls        map[uint64]*call // in flight
	starting     *call            // its hooks may run before its number is known
	alarm        alarm
	taken        int // bytes of calls, since the coroutine was resumed

	// Of the goroutine or coroutine.
	step  func() error // what it runs
	sent  bool         // something of an answer went to Envoy: the stream cannot be answered otherwise
	begun bool         // the head of an answer went to the client

	mu        sync.Mutex
	scheduler scheduler // used under the lock, while the stream is there
	gone      bool
	due       bool // the scheduler will call back
	posted    []posted
	events    []event
	queued    int  // bytes in events
	held      bool // pieces of the request wait in Envoy
	above     int  // watermarks that the answer is above of
	unread    int  // bytes of the answer that were sent meanwhile
	ahead     int  // bytes of the answer that are posted
	note      chan struct{}
}

var _ stream.Client = (*client)(nil)

// hook is a hook of a client's filter, by what an operation may do in it.
type hook uint8

const (
	inNone hook = iota
	inRequest
	inRequestEnd // the hook of the last piece of the request
	inAnswerEnd  // that of the last piece of the answer
	inOther
)

// posted is work for the worker's thread: at is the hook's body that it runs in, or outsideHooks. done is closed when it ran, or never will.
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

// begin starts to serve the request.
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

// Response code details. Envoy's mapping of local replies gives a body in the client's format to those that do not begin with "bardo".
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

// reset ends the client's stream where it is.
func (d *client) reset() { _ = d.do(posted{run: func(int) { d.f.reset() }}, false) }

// receives reports whether the hook may take the piece that came; otherwise it waits in Envoy, which stops reading from the client.
func (d *client) receives(end bool) bool {
	d.requestEnded = d.requestEnded || end
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queued >= maxQueued {
		d.held = true
	}
	return !d.held
}

// maxQueued is how many bytes of a request wait in Go's memory until they are read.
const maxQueued = 1 << 20

// push passes an event on, from a hook.
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

// came lets a coroutine go on, to which something of a call has come, at the end of the iteration. Not before: what it does then may end the stream that
// brought it. A client that has disconnected has no scheduler any more, and waits for nothing.
func (d *client) came() {
	if d.co != nil && !d.gone {
		d.w.batch.defers(d)
	}
}

// within runs f, and the coroutines that its operations woke, as in a hook of this filter.
func (d *client) within(in hook, f func()) {
	outer := d.in
	d.in = in
	f()
	d.w.runLater()
	d.in = outer
}

// notify lets the request go on, on the worker's thread.
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

// leave is the end of Envoy's stream; d.f is not valid when it returns. A request that did not begin yet does now: it is recorded, too.
func (d *client) leave() {
	d.mu.Lock()
	d.gone = true
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
	if d.w.batch.left(d) {
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
	if d.co != nil { // Envoy does not expect that its callback sends
		d.post(posted{run: func(int) {}})
		return
	}
	d.notify()
}

// do runs p on the worker's thread. With borrows it returns only when p ran, or never will. A coroutine is on that thread: it runs p itself, within a
// hook only if that one is in fits.
func (d *client) do(p posted, borrows bool, fits ...hook) error {
	if d.co != nil && !d.gone {
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
	d.in = inOther // what follows has to wait for the hook's end
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

// post is for any goroutine. It reports whether the stream is still there.
func (d *client) post(p posted) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
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

// runPosted runs what was posted. Each piece of it may end the stream, and d.f with it.
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
	return d.gone
}

// errLate is the end of a wait.
var errLate = errors.New("nothing came in time")

// await waits until ready, which runs under the lock.
func (d *client) await(timeout time.Duration, ready func() bool) error {
	var t timer
	defer t.stop()
	for {
		d.mu.Lock()
		ok, gone := ready(), d.gone
		d.mu.Unlock()
		switch {
		case ok:
			return nil
		case gone:
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

// next waits for the next event. What came before the client disconnected comes first.
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

// take reads what of the request waits in Envoy. The hook of a later piece may have taken it meanwhile: a second end of the request would come while
// its answer is waited for.
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
			// Envoy would send them behind a body with a content-length, where the provider expects the next request.
			return fault.Newf(fault.InvalidRequest, "the request ends in trailers, which are not supported: send it without them")
		default:
			return fmt.Errorf("%s while reading a request body", e.kind)
		}
	}
}

// maxCopy is how large a body is that is copied, so that the goroutine need not wait until it was sent.
const maxCopy = 64 << 10

// borrow returns b, or a copy of it; borrows says which.
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
			// Late trailers of a request that was forwarded already.
		case requestBody:
			return stream.Piece{}, fmt.Errorf("%s while waiting for an answer", e.kind)
		}
	}
}

// viaUpstream are the response code details of an answer that a provider made.
const viaUpstream = "via_upstream"

// answerHeadOf reads Envoy's attributes of an answer to a request with so many attempts planned. Within a hook.
func answerHeadOf(f handle, h header.List, details string, planned int) *stream.AnswerHead {
	a := &stream.AnswerHead{Header: h, Cluster: f.cluster(), Details: details}
	a.Status, _ = strconv.Atoi(h.Get(":status"))
	a.Attempts, _ = strconv.Atoi(h.Get("x-envoy-attempt-count"))
	a.Attempts = max(a.Attempts, 1)
	noted := a.Attempts
	if details != viaUpstream { // Envoy's own answer does not say how many there were
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

// maxOutcomes is the most attempts whose outcomes are read.
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

// maxAhead is how many bytes of an answer wait for the worker.
const maxAhead = 256 << 10

// maxUnread is how many bytes of an answer Envoy holds for a client that does not read: more than the largest answer that is charged, so that none
// keeps its reservation until the client reads or disconnects. Longer ones, as of files, wait for the client.
const maxUnread = 40 << 20

// StreamBody implements stream.Client. It waits while the client reads too slowly.
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
