package module

import (
	"testing"

	"bardo.money/gateway/extproc/stream/coroutine"
)

// TestARequestEndsOnce: a client has no Envoy here, so that taking from it ends the test program.
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
	d := &client{w: w, co: &coroutine.Coroutine{}, gone: true}
	d.Call("cluster", nil, nil)
	if d.deferred || len(w.batch.ready) > 0 || w.batch.owner != nil {
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
