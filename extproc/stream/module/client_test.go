package module

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// The clients here have no Envoy: an invalid operation ends the test program.

// TestARequestEndsOnce: a client has no Envoy here, so that reading from it ends the test program.
func TestARequestEndsOnce(t *testing.T) {
	d := &client{requestEnded: true, endPassed: true}
	d.take(0)
	if len(d.events) > 0 {
		t.Errorf("%d pieces came behind the request's end", len(d.events))
	}
}

// TestNothingWakesARequestWhoseClientHasLeft: Envoy has deleted its scheduler.
func TestNothingWakesARequestWhoseClientHasLeft(t *testing.T) {
	w := &worker{}
	d := &client{w: w, co: &coroutine.Coroutine{}, ended: true}
	d.Call("cluster", nil, nil)
	if d.place.Ready() || w.batch.owner != nil {
		t.Error("it waits for its turn")
	}
}

func TestACoroutineTakesALongAnswerInTurns(t *testing.T) {
	d := &client{}
	k := (*localCall)(&call{client: d, end: true, chunks: [][]byte{make([]byte, maxTaken-1), {1}, {2}}})
	for range 2 {
		if _, end, ok, err := k.Next(); end || !ok || err != nil {
			t.Fatal(end, ok, err)
		}
	}
	if _, _, ok, _ := k.Next(); ok {
		t.Error("more is taken before the others had their turn")
	}
	d.taken = 0
	if b, end, ok, err := k.Next(); len(b) != 1 || !end || !ok || err != nil {
		t.Error(b, end, ok, err)
	}
}

func TestAnAnswerThatNobodyReadsIsBounded(t *testing.T) {
	k := &call{client: &client{}, local: true}
	if !k.add(make([]byte, MaxBuffered), false) || k.ended() {
		t.Fatal("too little may wait")
	}
	if k.add([]byte{1}, false) || !k.ended() {
		t.Error("more than that waits")
	}
}

func TestARequestThatIsReadSlowlyWaitsInEnvoy(t *testing.T) {
	d := &client{queued: maxQueued - 1}
	if !d.receives(false) || d.held {
		t.Error("a piece waits although there is room")
	}
	if d.queued = maxQueued; d.receives(false) || !d.held || d.receives(false) {
		t.Error("a piece is taken although there is no room")
	}
}

// TestACallEndsNoOtherCall with the same id: Envoy may reuse ids.
func TestACallEndsNoOtherCall(t *testing.T) {
	d := &client{}
	other := &call{client: d, id: 7}
	d.calls = map[uint64]*call{7: other}
	k := &call{client: d, id: 7}
	k.reset(outsideHooks)
	if d.calls[7] != other {
		t.Error("it ended another call")
	}
	k.err = stream.ErrDisconnected
	d.start(k, "cluster", nil, nil)
	if len(d.calls) != 1 || d.starting != nil {
		t.Error("a call that is over was started")
	}
}

// TestWhoLeavesIsDroppedFromTheBatch with its pending operations.
func TestWhoLeavesIsDroppedFromTheBatch(t *testing.T) {
	w := &worker{}
	left, other := &client{w: w, ended: true}, &client{w: w}
	ran := false
	w.batch = batch{owner: other, deferred: []deferredOp{{left, posted{run: func(int) { ran = true }}}}}
	w.batch.defers(left)
	w.batch.defers(other)
	w.batch.remove(left)
	if next, ok := w.batch.Next(); !ok || next != other || left.place.Ready() {
		t.Error("it waits for its turn")
	}
	if w.batch.flush(); ran || len(w.batch.deferred) > 0 {
		t.Error("something was done to a stream that is gone")
	}
}

// served is an App that only records the end of requests.
type served struct{ App }

func (served) Closed() {}

// TestRequestsOfABatchTakeTurns: all reach the same step before any goes further, and one whose client disconnects meanwhile continues.
func TestRequestsOfABatchTakeTurns(t *testing.T) {
	process.app = served{}
	defer func() { process.app = nil }()
	w := &worker{visits: &visits{}, depth: 1}
	var steps []string
	begin := func(name string, does func(*client)) {
		d := &client{w: w, sent: true, cancel: func() {}}
		d.step = func() error {
			for n := range 3 {
				steps = append(steps, fmt.Sprint(name, n))
				does(d)
				d.Turn()
			}
			return nil
		}
		d.co = w.pool.Take(d)
		w.batch.Add(d)
	}
	stays := func(*client) {}
	begin("a", stays)
	begin("b", func(d *client) { d.ended = true })
	begin("c", stays)
	w.batch.resumeReady()
	if got, want := strings.Join(steps, " "), "a0 b0 b1 b2 c0 a1 c1 a2 c2"; got != want {
		t.Errorf("the steps were %s, want %s", got, want)
	}
	steps = nil
	begin("d", stays)
	w.batch.resumeReady()
	if got := strings.Join(steps, " "); got != "d0 d1 d2" || w.batch.keeps {
		t.Errorf("alone the steps were %s", got)
	}
	w.pool.Close()
}

// TestNothingIsDoneToAStreamThatIsGone, and waiters are notified.
func TestNothingIsDoneToAStreamThatIsGone(t *testing.T) {
	d, ran := &client{note: make(chan struct{}, 1)}, false
	waits := make(chan struct{})
	d.posted = []posted{{run: func(int) { d.ended = true }}, {run: func(int) { ran = true }, done: waits}}
	d.runPosted()
	if ran || !isClosed(waits) {
		t.Error("it was done, or somebody waits for it")
	}
	if d.post(posted{run: func(int) {}}) {
		t.Error("more was taken")
	}
}

// TestAnAnswerWaitsForAClientThatReadsSlowly, once the unread part reaches Envoy's limit.
func TestAnAnswerWaitsForAClientThatReadsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &client{note: make(chan struct{}, 1), above: 1, unread: maxUnread - 1, due: true}
		if err := d.StreamBody([]byte{1}, false); err != nil {
			t.Fatal(err)
		}
		done := false
		go func() {
			if err := d.StreamBody([]byte{2}, false); err != nil {
				t.Error(err)
			}
			done = true
		}()
		if synctest.Wait(); done {
			t.Error("it did not wait")
		}
		d.watermark(-1)
		if synctest.Wait(); !done || len(d.posted) != 2 {
			t.Errorf("it still waits, %d pieces were sent", len(d.posted))
		}
	})
}

// TestAProviderDoesNotSpeakForEnvoy: only Envoy's own header states why a provider could not be reached.
func TestAProviderDoesNotSpeakForEnvoy(t *testing.T) {
	answer := header.List{{Name: ":status", Value: "503"}, {Name: state.HeaderFailure, Value: "connection_failure"}}
	k := (*localCall)(&call{client: &client{}, head: append(answer, header.Field{Name: serviceTime, Value: "3"})})
	if h, err := k.Head(); err != nil || h == nil || h.Status != 503 || h.Failure != "" || len(h.Header) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
	k = (*localCall)(&call{client: &client{}, head: answer, end: true, chunks: [][]byte{[]byte("no healthy upstream")}})
	if h, err := k.Head(); err != nil || h == nil || h.Failure != "no_healthy_upstream" {
		t.Errorf("%+v, %v of Envoy's own answer", h, err)
	}
	for named, want := range map[bool]string{
		false: "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}",
		true:  "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused_or_no_address}",
	} {
		said := "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure, transport failure reason: delayed connect error: Connection refused"
		k = (*localCall)(&call{client: &client{}, head: answer, end: true, chunks: [][]byte{[]byte(said)}, named: named})
		if h, err := k.Head(); err != nil || h == nil || h.Failure != want {
			t.Errorf("%+v, %v, want %s", h, err, want)
		}
	}
}

func TestAHostIsANameOrAnAddress(t *testing.T) {
	for host, want := range map[string]bool{"api.openai.com": true, "localhost:8000": true, "127.0.0.1:1": false, "10.0.0.1": false, "[::1]:80": false, "[fe80::1]": false} {
		if got := isNamed(header.List{{Name: ":authority", Value: host}}); got != want {
			t.Errorf("%s is a name: %v", host, got)
		}
	}
}
