package module

/*
#cgo CFLAGS: -O2 -Wall
#include "abi.h"
#cgo noescape dm_log
#cgo nocallback dm_log
#cgo noescape dm_forward
#cgo noescape dm_answer
#cgo noescape dm_reply
#cgo noescape dm_head
#cgo noescape dm_data
#cgo noescape dm_trailers
#cgo noescape dm_call
#cgo noescape dm_attempt
#cgo nocallback dm_attempt
#cgo noescape dm_attempt_body
#cgo nocallback dm_attempt_body
#cgo noescape dm_note
#cgo nocallback dm_note
#cgo noescape dm_status
#cgo nocallback dm_status
#cgo noescape dm_noted
#cgo nocallback dm_noted
#cgo nocallback dm_cluster
#cgo nocallback dm_drain
#cgo nocallback dm_scheduler
#cgo nocallback dm_commit
#cgo nocallback dm_unschedule
*/
import "C"

import (
	"fmt"
	"runtime/debug"

	"bardo.money/gateway/extproc/stream"
)

// Levels of Envoy's log.
const (
	levelWarn  = 3
	levelError = 4
)

func logf(level C.int, format string, args ...any) {
	C.dm_log(level, bufOf("bardo: "+fmt.Sprintf(format, args...)))
}

// worker holds the filters of one of Envoy's worker threads. Only that thread uses it, so it needs no lock.
type worker struct {
	filters []filter
	free    []C.uint32_t
}

// filter is one of the two, or neither where a slot is free.
type filter struct {
	client  *client
	attempt *attempt
}

var workers [maxWorkers]worker

// workerOf is the worker whose thread a filter's hook runs on.
func workerOf(c *C.dm_stream) *worker { return &workers[c.worker%maxWorkers] }

func (w *worker) add(c *C.dm_stream, f filter) {
	if n := len(w.free); n > 0 {
		c.slot = w.free[n-1]
		w.free = w.free[:n-1]
		w.filters[c.slot] = f
		return
	}
	if len(w.filters) == 0 {
		w.filters = append(w.filters, filter{}) // slot 0 means none
	}
	c.slot = C.uint32_t(len(w.filters)) //nolint:gosec // a count of streams
	w.filters = append(w.filters, f)
}

func (w *worker) remove(c *C.dm_stream) {
	w.filters[c.slot] = filter{}
	w.free = append(w.free, c.slot)
	c.slot = 0
}

func clientOf(c *C.dm_stream) *client { return workerOf(c).filters[c.slot].client }

func attemptOf(c *C.dm_stream) *attempt { return workerOf(c).filters[c.slot].attempt }

// barrier ends a filter's request after a panic in a hook. For defer.
func barrier(c *C.dm_stream, r *C.int) {
	v := recover()
	if v == nil {
		return
	}
	process.app.Panicked(v)
	logf(levelError, "a panic in a hook: %v\n%s", v, debug.Stack())
	*r = C.STOP
	if c.slot != 0 {
		C.dm_reset(c)
	}
}

//export goStart
func goStart(conf C.dm_buf, concurrency C.uint32_t) C.bool {
	if err := begin(text(conf), int(concurrency)); err != nil {
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

// guarded runs an end of the process with panics logged.
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
	defer barrier(c, &r)
	d := newClient(c, stream.NewHead(headers(h, n), text(peer)), bool(end))
	workerOf(c).add(c, filter{client: d})
	d.begin()
	return C.STOP
}

//export goRequestBody
func goRequestBody(c *C.dm_stream, p *C.dm_buf, n C.size_t, end C.bool) (r C.int) {
	defer barrier(c, &r)
	d := clientOf(c)
	if !d.receives(bool(end)) {
		return C.STOP_AND_WATERMARK
	}
	all := pieces(p, n)
	b := appendPieces(make([]byte, 0, sizeOf(all)), all, maxInt)
	C.dm_drain(c, C.RECEIVED_REQUEST)
	d.push(event{kind: requestBody, body: b, end: d.requestEnded})
	return C.STOP_NO_BUFFER
}

//export goRequestTrailers
func goRequestTrailers(c *C.dm_stream) (r C.int) {
	defer barrier(c, &r)
	d := clientOf(c)
	if d.forwarded {
		return C.CONTINUE
	}
	d.push(event{kind: requestTrailers})
	return C.STOP
}

//export goAnswer
func goAnswer(c *C.dm_stream, h *C.dm_header, n C.size_t, end C.bool, details C.dm_buf) (r C.int) {
	defer barrier(c, &r)
	d := clientOf(c)
	if !d.forwarded {
		return C.CONTINUE // Envoy answered before the request was forwarded
	}
	d.push(event{kind: answerHead, head: answerHeadOf(c, headers(h, n), text(details)), end: bool(end)})
	return C.STOP
}

//export goAnswerBody
func goAnswerBody(c *C.dm_stream, p *C.dm_buf, n C.size_t, end C.bool) (r C.int) {
	defer barrier(c, &r)
	d := clientOf(c)
	if !d.forwarded {
		return C.CONTINUE
	}
	all := pieces(p, n)
	b := appendPieces(make([]byte, 0, sizeOf(all)), all, maxInt)
	C.dm_drain(c, C.RECEIVED_RESPONSE)
	d.push(event{kind: answerBody, body: b, end: bool(end)})
	return C.STOP_NO_BUFFER
}

//export goAnswerTrailers
func goAnswerTrailers(c *C.dm_stream) (r C.int) {
	defer barrier(c, &r)
	d := clientOf(c)
	if !d.forwarded {
		return C.CONTINUE
	}
	d.push(event{kind: answerBody, end: true})
	return C.STOP
}

//export goScheduled
func goScheduled(c *C.dm_stream, _ C.uint64_t) {
	var r C.int
	defer barrier(c, &r)
	clientOf(c).runPosted()
}

//export goWatermark
func goWatermark(c *C.dm_stream, d C.int) {
	var r C.int
	defer barrier(c, &r)
	if d2 := clientOf(c); d2 != nil {
		d2.watermark(int(d))
	}
}

//export goGone
func goGone(c *C.dm_stream) {
	var r C.int
	defer barrier(c, &r)
	f := workerOf(c).filters[c.slot]
	workerOf(c).remove(c)
	if f.client != nil {
		f.client.leave()
	}
}

//export goCallHead
func goCallHead(c *C.dm_stream, id C.uint64_t, h *C.dm_header, n C.size_t, end C.bool) {
	var r C.int
	defer barrier(c, &r)
	if k := clientOf(c).call(uint64(id)); k != nil {
		k.begin(headers(h, n), bool(end))
	}
}

//export goCallBody
func goCallBody(c *C.dm_stream, id C.uint64_t, p *C.dm_buf, n C.size_t, end C.bool) {
	var r C.int
	defer barrier(c, &r)
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
	defer barrier(c, &r)
	if k := clientOf(c).call(uint64(id)); k != nil {
		k.fail(fmt.Errorf("envoy reset the stream: reason %d", int(reason)))
	}
}

const maxInt = int(^uint(0) >> 1)
