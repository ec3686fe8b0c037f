package module

/*
#cgo CFLAGS: -O2 -Wall
// What cgo generates names its source by its place, also with -trimpath. A flag with the place in it keeps Go's cache from handing it to another checkout,
// where linters look for that source.
#cgo CFLAGS: -I${SRCDIR}
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
#cgo nocallback dm_watch
#cgo nocallback dm_watch_again
*/
import "C"

import (
	"fmt"
	"unsafe"

	"bardo.money/gateway/extproc/stream"
)

// retrySuffix is how shim.c knows clusters whose requests Go writes.
const retrySuffix = C.RETRY_SUFFIX

// Levels of Envoy's log.
const (
	levelWarn  = 3
	levelError = 4
)

func logf(level int, format string, args ...any) {
	C.dm_log(C.int(level), bufOf("bardo: "+fmt.Sprintf(format, args...)))
}

// handle is the filter of one HTTP stream, on its worker's thread. Each operation may end the stream, which invalidates the handle.
type handle struct{ c *C.dm_stream }

// Operations take packed headers, and at: the body of the hook that they run in, or outsideHooks.

// Where an operation runs: in the hook of a body, or outside hooks.
const (
	receivedRequest = C.RECEIVED_REQUEST
	receivedAnswer  = C.RECEIVED_RESPONSE
	outsideHooks    = -1
)

func (h handle) reply(status int, set, body []byte, details string) {
	C.dm_reply(h.c, C.uint32_t(status), buf(set), buf(body), bufOf(details))
}

func (h handle) forward(set, body, order []byte, exchange string, at int) {
	C.dm_forward(h.c, buf(set), buf(body), buf(order), bufOf(exchange), C.int(at))
}

func (h handle) answer(set, body []byte, at int) { C.dm_answer(h.c, buf(set), buf(body), C.int(at)) }

func (h handle) streamHead(set []byte) { C.dm_head(h.c, buf(set)) }

func (h handle) streamBody(b []byte, end bool) { C.dm_data(h.c, buf(b), C.bool(end)) }

func (h handle) streamTrailers(set []byte) { C.dm_trailers(h.c, buf(set)) }

func (h handle) reset() { C.dm_reset(h.c) }

// take passes on the part of the request that waits in Envoy.
func (h handle) take() { C.dm_take(h.c) }

// startCall starts a call; code is 0, or why it was not started.
func (h handle) startCall(cluster string, set, body []byte) (id uint64, code int) {
	var n C.uint64_t
	code = int(C.dm_call(h.c, &n, bufOf(cluster), buf(set), buf(body)))
	return uint64(n), code
}

func (h handle) resetCall(id uint64) { C.dm_reset_call(h.c, C.uint64_t(id)) }

// writeAttempt replaces an attempt's headers, writeAttemptBody its body.
func (h handle) writeAttempt(r *stream.AttemptRequest) {
	set := pack(r.Set, r.Remove)
	C.dm_attempt(h.c, buf(set), C.size_t(len(r.Body)))
}

func (h handle) writeAttemptBody(b []byte) { C.dm_attempt_body(h.c, buf(b)) }

func (h handle) setStatus(status string) { C.dm_status(h.c, bufOf(status)) }

// note writes a string to the gateway's dynamic metadata, noted reads it.
func (h handle) note(key, value string) { C.dm_note(h.c, bufOf(key), bufOf(value)) }

func (h handle) noted(key string) string { return text(C.dm_noted(h.c, bufOf(key))) }

func (h handle) cluster() string { return text(C.dm_cluster(h.c)) }

// scheduler calls goScheduled on the worker's thread. It may be used by any thread, but not concurrently with delete.
type scheduler struct{ p unsafe.Pointer }

func (h handle) newScheduler() scheduler { return scheduler{C.dm_scheduler(h.c)} }

func (s scheduler) commit(event C.uint64_t) { C.dm_commit(s.p, event) }

// Purposes of a scheduled event.
const (
	eventPosted = iota
	eventBatch
)

func (s scheduler) delete() { C.dm_unschedule(s.p) }
