package deferred

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/extproc/stream"
)

// cancelNow cancels req_a in the middle of an effect on the world, whose lock the caller holds.
func (w *world) cancelNow(s *Service) {
	w.mu.Unlock()
	defer w.mu.Lock()
	err := s.Cancel(w.t.Context(), "ada", "req_a")
	if err != nil && !errors.Is(err, ErrUnknown) {
		w.t.Errorf("the cancellation: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancelled, w.before = true, w.calls["req_a"]
	_, held := w.standing["req_a"]
	w.free = !held && w.charged["req_a"] == 0 // nothing had begun, so nothing may follow
}

// left counts the rows of a table.
func (w *world) left(s *Service, table, where string) (n int) {
	w.t.Helper()
	if err := s.store.Load().db.QueryRowContext(w.t.Context(), `SELECT count(*) FROM `+table+where).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// untilOver runs a gateway until it is killed, or nothing is open, including at the provider.
func (w *world) untilOver(ctx context.Context, s *Service) {
	w.t.Helper()
	for range 35 {
		w.rounds(ctx, s, 5)
		if ctx.Err() != nil || w.left(s, "request", ` WHERE state NOT IN ('over', 'gone')`)+w.left(s, "batch", "") == 0 {
			return
		}
	}
}

// TestACancelAtAnyMomentEndsARequest: before each of its external effects, with a gateway that continues, and with one that is killed immediately
// after. The answer is discarded; no further call is made; what was used is charged once; nothing stays reserved or stored; and the other request of
// the batch is answered.
func TestACancelAtAnyMomentEndsARequest(t *testing.T) {
	for _, batches := range []bool{true, false} {
		for _, killed := range []bool{false, true} {
			for at := 1; cancelledAt(t, at, batches, killed); at++ {
				if t.Failed() {
					t.Fatalf("batches %v, killed %v, cancelled before effect %d", batches, killed, at)
				}
			}
		}
	}
}

// cancelledAt cancels req_a before an effect; it returns false if there are fewer effects.
func cancelledAt(t *testing.T, at int, batches, killed bool) bool {
	t.Helper()
	w := newWorld(t)
	o := usual
	o.Batches = batches
	s, ctx := w.start(&o)
	w.mustAdd(s, "req_a", 3*time.Hour)
	w.mustAdd(s, "req_b", 3*time.Hour)
	w.at = map[int]func(){at: func() {
		w.cancelNow(s)
		if killed {
			w.die()
			panic(errDead)
		}
	}}
	w.untilOver(ctx, s)
	if !w.cancelled {
		return false
	}
	if killed {
		_ = s.Close()
		s, ctx = w.start(&o)
		if err := s.Open(ctx); err != nil {
			t.Fatal(err)
		}
		w.untilOver(ctx, s)
	}
	if got, err := s.Answer(ctx, "ada", "req_a", true); !errors.Is(err, ErrGone) {
		t.Errorf("the answer is %+v, %v", got.Answer, err)
	}
	w.mustHave(s, "req_b", 200, "")
	if w.charged["req_a"] > 1 || w.calls["req_a"] > w.before || w.free && (w.handed["req_a"] > 0 || w.charged["req_a"] > 0) {
		t.Errorf("free %v: handed in %d times, %d calls, %d of them before, %d charges", w.free, w.handed["req_a"], w.calls["req_a"], w.before, w.charged["req_a"])
	}
	if !killed && w.charged["req_a"] != w.calls["req_a"]+w.handed["req_a"] {
		t.Errorf("%d charges, %d calls, handed in %d times", w.charged["req_a"], w.calls["req_a"], w.handed["req_a"])
	}
	if n := w.left(s, "call", "") + w.left(s, "item", "") + w.left(s, "request", ` WHERE head IS NOT NULL OR body IS NOT NULL OR state = 'gone' AND answer IS NOT NULL`); n != 0 {
		t.Errorf("%d rows with content are left", n)
	}
	if !killed && len(w.files) > 0 { // a killed gateway may have uploaded what it had not stored
		t.Errorf("files that are left at the provider: %v", w.files)
	}
	return true
}

// TestACallThatAnswersAfterItsRequestIsOverIsNotStored: it would never be deleted.
func TestACallThatAnswersAfterItsRequestIsOverIsNotStored(t *testing.T) {
	w := newWorld(t)
	s, _ := w.start(&usual)
	w.mustAdd(s, "req_a", time.Hour)
	st, call := s.store.Load(), &Call{Digest: []byte("d"), Status: 200, Body: []byte("late")}
	if err := st.keepCall(t.Context(), "req_a", call); err != nil || w.left(s, "call", "") != 1 {
		t.Errorf("in time: %v, %d rows", err, w.left(s, "call", ""))
	}
	if err := st.finish(t.Context(), "req_a", &stream.Reply{Status: 200}); err != nil {
		t.Fatal(err)
	}
	if err := st.keepCall(t.Context(), "req_a", call); err != nil || w.left(s, "call", "") != 0 {
		t.Errorf("late: %v, %d rows", err, w.left(s, "call", ""))
	}
}

// slow answers a request after the rounds of the Run that called it have continued.
type slow struct {
	*world

	rounds atomic.Int32
}

// Draining implements Runner: each round begins with it.
func (s *slow) Draining() bool {
	s.rounds.Add(1)
	return false
}

// Idle implements Runner.
func (*slow) Idle() bool { return true }

// Answer implements Runner.
func (s *slow) Answer(ctx context.Context, r *Request, run *Run) Served {
	for until := s.rounds.Load() + 3; s.rounds.Load() < until && ctx.Err() == nil; {
		runtime.Gosched()
	}
	return s.world.Answer(ctx, r, run)
}

// TestACallGoesOnBesideLaterRounds, which may have other options: it uses those of its own round (the race detector checks the rest).
func TestACallGoesOnBesideLaterRounds(t *testing.T) {
	w := newWorld(t)
	s, ctx := w.start(&Options{Poll: time.Millisecond, Fallback: time.Hour, Keep: 24 * time.Hour, KeepDelivered: time.Hour, PerAccount: usual.PerAccount})
	s.Runner = &slow{world: w}
	if err := s.Open(ctx); err != nil {
		t.Fatal(err)
	}
	w.mustAdd(s, "req_a", 2*time.Minute)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for a, err := s.Answer(ctx, "ada", "req_a", false); err != nil || a.Answer == nil; a, err = s.Answer(ctx, "ada", "req_a", false) {
		if err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if w.calls["req_a"] != 1 || w.charged["req_a"] != 1 {
		t.Errorf("%d calls, %d charges", w.calls["req_a"], w.charged["req_a"])
	}
}
