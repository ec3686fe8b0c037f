package module

// #include "abi.h"
import "C"

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/internal/timerslack"
)

// worker holds the filters of one of Envoy's worker threads. Only that thread changes it, under the lock: Cut reads it from another one.
type worker struct {
	mu      sync.Mutex
	filters []filter
	free    []C.uint32_t

	depth int       // depth of hooks: a hook within an operation of another is deeper
	later []*client // to be resumed by the outermost hook
	pool  coroutine.Pool
	batch batch
	open  int // number of clients in filters

	visits *visits // counts outermost hooks
}

// filter is a client or an attempt; neither in a free slot.
type filter struct {
	client  *client
	attempt *attempt
}

var workers [maxWorkers]worker

func init() {
	for i := range workers {
		workers[i].visits = (*visits)(&C.dm_visits[i]) //nolint:gocritic // cgo's own code
	}
}

// workerOf returns the worker on whose thread a filter's hook runs.
func workerOf(c *C.dm_stream) *worker { return &workers[c.worker%maxWorkers] }

func (w *worker) add(c *C.dm_stream, f filter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.client != nil {
		w.open++
	}
	if n := len(w.free); n > 0 {
		c.slot = w.free[n-1]
		w.free = w.free[:n-1]
		w.filters[c.slot] = f
		return
	}
	if len(w.filters) == 0 {
		w.filters = append(w.filters, filter{}) // slot 0 means none
	}
	c.slot = C.uint32_t(len(w.filters))
	w.filters = append(w.filters, f)
}

func (w *worker) remove(c *C.dm_stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.filters[c.slot].client != nil {
		w.open--
	}
	w.filters[c.slot] = filter{}
	w.free = append(w.free, c.slot)
	c.slot = 0
}

func clientOf(c *C.dm_stream) *client { return workerOf(c).filters[c.slot].client }

func attemptOf(c *C.dm_stream) *attempt { return workerOf(c).filters[c.slot].attempt }

// visit is a hook in progress.
type visit struct {
	w    *worker
	c    *C.dm_stream
	slot C.uint32_t
}

func enter(c *C.dm_stream) visit {
	v := visit{workerOf(c), c, c.slot}
	v.w.enter()
	return v
}

// exit resumes the coroutines that wait for the end of the outermost hook. A panic ends the filter's request. For defer.
func (v visit) exit(r *C.int) {
	if p := recover(); p != nil {
		process.app.Panicked(p)
		logf(levelError, "a panic in a hook: %v\n%s", p, debug.Stack())
		*r = C.STOP
		if v.slot == 0 || v.w.filters[v.slot] != (filter{}) { // else it has ended
			C.dm_reset(v.c)
		}
	}
	v.w.exit()
}

//export goStart
func goStart(conf C.dm_buf, concurrency C.uint32_t) C.bool {
	timerslack.Restore() // on Envoy's main thread, which creates the workers
	err := begin(text(conf), int(concurrency))
	if err != nil {
		logf(levelError, "the gateway does not start: %v", err)
		return false
	}
	return true
}

//export goStarted
func goStarted() C.bool {
	if !started() {
		logf(levelError, `a filter of the module needs its bootstrap extension "process", which is not configured or did not start`)
		return false
	}
	return true
}

// guarded runs f, a step of the process's shutdown, and logs a panic.
func guarded(f func()) {
	defer func() {
		if v := recover(); v != nil {
			logf(levelError, "a panic: %v\n%s", v, debug.Stack())
		}
	}()
	f()
}

//export goDrain
func goDrain() { guarded(process.app.Drain) }

//export goShutdown
func goShutdown() { guarded(process.app.Shutdown) }

//export goRequest
func goRequest(c *C.dm_stream, h *C.dm_header, n C.size_t, end C.bool, peer C.dm_buf) (r C.int) {
	defer enter(c).exit(&r)
	d := newClient(handle{c}, workerOf(c), stream.NewHead(headers(h, n), text(peer)), bool(end))
	workerOf(c).add(c, filter{client: d})
	if d.isShort() && workerOf(c).isBusy() {
		workerOf(c).batch.begins(d)
		return C.STOP
	}
	d.within(inRequest, d.begin)
	return C.STOP
}

//export goRequestBody
func goRequestBody(c *C.dm_stream, p *C.dm_buf, n C.size_t, end C.bool) (r C.int) {
	defer enter(c).exit(&r)
	d := clientOf(c)
	if !d.receives(bool(end)) {
		return C.STOP_AND_WATERMARK
	}
	all := pieces(p, n)
	e := newBodyEvent(sizeOf(all))
	e.body = appendPieces(e.body, all, maxInt)
	C.dm_drain(c, C.RECEIVED_REQUEST)
	in := inRequest
	switch {
	case d.taking:
		in = inNone
	case bool(end):
		in = inRequestEnd
	}
	d.endPassed = d.requestEnded
	e.end = d.requestEnded
	d.push(in, e)
	if d.continued {
		return C.CONTINUE
	}
	return C.STOP_NO_BUFFER
}

//export goRequestTrailers
func goRequestTrailers(c *C.dm_stream) (r C.int) {
	defer enter(c).exit(&r)
	d := clientOf(c)
	if d.forwarded {
		return C.CONTINUE
	}
	d.push(inRequest, event{kind: requestTrailers})
	return C.STOP
}

//export goAnswer
func goAnswer(c *C.dm_stream, h *C.dm_header, n C.size_t, end C.bool, details C.dm_buf) (r C.int) {
	defer enter(c).exit(&r)
	d := clientOf(c)
	if !d.forwarded {
		return C.CONTINUE // Envoy answered before the request was forwarded
	}
	d.push(inOther, event{kind: answerHead, head: answerHeadOf(handle{c}, headers(h, n), text(details), d.planned), end: bool(end)})
	return C.STOP
}

//export goAnswerBody
func goAnswerBody(c *C.dm_stream, p *C.dm_buf, n C.size_t, end C.bool) (r C.int) {
	defer enter(c).exit(&r)
	d := clientOf(c)
	if !d.forwarded {
		return C.CONTINUE
	}
	all := pieces(p, n)
	b := appendPieces(make([]byte, 0, sizeOf(all)), all, maxInt)
	C.dm_drain(c, C.RECEIVED_RESPONSE)
	in := inOther
	if bool(end) {
		in = inAnswerEnd
	}
	d.push(in, event{kind: answerBody, body: b, end: bool(end)})
	if d.continued {
		return C.CONTINUE
	}
	return C.STOP_NO_BUFFER
}

//export goAnswerTrailers
func goAnswerTrailers(c *C.dm_stream) (r C.int) {
	defer enter(c).exit(&r)
	d := clientOf(c)
	if !d.forwarded {
		return C.CONTINUE
	}
	d.push(inOther, event{kind: answerBody, end: true})
	return C.STOP
}

//export goScheduled
func goScheduled(c *C.dm_stream, event C.uint64_t) {
	var r C.int
	defer enter(c).exit(&r)
	if event == eventBatch {
		workerOf(c).batch.run()
		return
	}
	clientOf(c).runPosted()
}

//export goWatermark
func goWatermark(c *C.dm_stream, change C.int) {
	var r C.int
	defer enter(c).exit(&r)
	if d := clientOf(c); d != nil { // attempts need none
		d.watermark(int(change))
	}
}

//export goGone
func goGone(c *C.dm_stream) {
	var r C.int
	defer enter(c).exit(&r)
	f := workerOf(c).filters[c.slot]
	workerOf(c).remove(c)
	if f.client != nil {
		f.client.leave()
	}
}

//export goCallHead
func goCallHead(c *C.dm_stream, id C.uint64_t, h *C.dm_header, n C.size_t, end C.bool) {
	var r C.int
	defer enter(c).exit(&r)
	if k := clientOf(c).call(uint64(id)); k != nil {
		k.begin(headers(h, n), bool(end))
	}
}

//export goCallBody
func goCallBody(c *C.dm_stream, id C.uint64_t, p *C.dm_buf, n C.size_t, end C.bool) {
	var r C.int
	defer enter(c).exit(&r)
	k := clientOf(c).call(uint64(id))
	if k == nil {
		return
	}
	all := pieces(p, n)
	if !k.add(appendPieces(make([]byte, 0, sizeOf(all)), all, maxInt), bool(end)) {
		C.dm_reset_call(c, id)
	}
}

//export goCallReset
func goCallReset(c *C.dm_stream, id C.uint64_t, reason C.int) {
	var r C.int
	defer enter(c).exit(&r)
	if k := clientOf(c).call(uint64(id)); k != nil {
		k.fail(fmt.Errorf("envoy reset the stream: reason %d", int(reason)))
	}
}

const maxInt = int(^uint(0) >> 1)

//export goAttempt
func goAttempt(c *C.dm_stream, h *C.dm_header, n C.size_t) (r C.int) {
	defer enter(c).exit(&r)
	f := handle{c}
	head := headers(h, n)
	a := newAttempt(f, head)
	workerOf(c).add(c, filter{attempt: a})
	if a.write(f, head) != nil { // Envoy does not retry then: the client's request ends
		f.reply(http.StatusServiceUnavailable, pack(nil, nil), nil, detailsError)
		return C.STOP
	}
	return C.CONTINUE
}

// goFirstAttempt adds an attempt that Go did not encode, before the part of its answer that is examined.
//
//export goFirstAttempt
func goFirstAttempt(c *C.dm_stream, h *C.dm_header, n C.size_t) {
	var r C.int
	defer enter(c).exit(&r)
	workerOf(c).add(c, filter{attempt: newAttempt(handle{c}, headers(h, n))})
}

//export goAttemptBody
func goAttemptBody(c *C.dm_stream, end C.bool) (r C.int) {
	defer enter(c).exit(&r)
	a := attemptOf(c)
	if !bool(end) {
		C.dm_drain(c, C.RECEIVED_REQUEST)
		return C.STOP_NO_BUFFER
	}
	handle{c}.writeAttemptBody(a.body)
	a.body = nil
	return C.CONTINUE
}

//export goAttemptHead
func goAttemptHead(c *C.dm_stream, h *C.dm_header, n C.size_t, end C.bool) (r C.int) {
	defer enter(c).exit(&r)
	if attemptOf(c).answered(handle{c}, headers(h, n), bool(end)) {
		return C.STOP
	}
	return C.CONTINUE
}

//export goAttemptHolds
func goAttemptHolds(c *C.dm_stream) C.bool { return C.bool(attemptOf(c).holds) }

//export goAttemptAnswer
func goAttemptAnswer(c *C.dm_stream, p *C.dm_buf, n C.size_t) (r C.int) {
	defer enter(c).exit(&r)
	all := pieces(p, n)
	attemptOf(c).whole(handle{c}, func(at, n int) []byte { return part(all, at, n) })
	return C.CONTINUE
}
