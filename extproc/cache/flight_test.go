package cache_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
)

// joinAll returns n tickets of one request: the first leads, the others wait.
func joinAll(t *testing.T, s *cache.Store, n int) []*cache.Ticket {
	t.Helper()
	out := make([]*cache.Ticket, n)
	for i := range out {
		out[i] = newTicket(s, "a", 1, unlimited)
		if e, waits := out[i].Join(); e != nil || waits != (i > 0) {
			t.Fatalf("ticket %d: entry %v, waits %v", i, e, waits)
		}
	}
	return out
}

// outcomeOf is the outcome that was delivered to a ticket; ok is false if there is none yet.
func outcomeOf(q *cache.Ticket) (turn cache.Outcome, ok bool) {
	select {
	case turn = <-q.Outcome():
		return turn, true
	default:
		return turn, false
	}
}

func TestD33OneCallAnswersAllCoalescedRequests(t *testing.T) {
	s, _ := newStore(0)
	q := joinAll(t, s, 5)
	finishWith(q[0], "x")
	for i := range 4 {
		if turn, ok := outcomeOf(q[i+1]); !ok || textOf(turn.Entry) != "x" || turn.Err != nil {
			t.Errorf("ticket %d: %+v, %v", i+1, turn, ok)
		}
	}
	for i := range q {
		q[i].Release(nil)
	}
	if e, waits := newTicket(s, "a", 1, unlimited).Join(); textOf(e) != "x" || waits {
		t.Errorf("the next one: %q, waits %v", textOf(e), waits)
	}
}

func TestK60RequestsOfOtherTenantsAreNotCoalesced(t *testing.T) {
	s, _ := newStore(0)
	joinAll(t, s, 2)
	if _, waits := newTicket(s, "b", 1, unlimited).Join(); waits {
		t.Error("b waits for a's call")
	}
	if _, waits := newTicket(s, "a", 2, unlimited).Join(); waits {
		t.Error("another question waits")
	}
}

func TestNoCacheAndNoStoreAreNotCoalesced(t *testing.T) {
	for name, change := range map[string]func(*cache.Control){
		"no-cache": func(c *cache.Control) { c.NoLookup = true },
		"no-store": func(c *cache.Control) { c.NoStore = true },
	} {
		s, _ := newStore(0)
		c := unlimited
		change(&c)
		if _, waits := newTicket(s, "a", 1, c).Join(); waits {
			t.Errorf("%s waits, without another request in flight", name)
		}
		if _, waits := newTicket(s, "a", 1, unlimited).Join(); waits {
			t.Errorf("a request waits for %s", name)
		}
		if _, waits := newTicket(s, "a", 1, c).Join(); waits {
			t.Errorf("%s waits", name)
		}
	}
}

func TestADisconnectedLeaderIsReplaced(t *testing.T) {
	s, _ := newStore(0)
	q := joinAll(t, s, 4)
	q[1].Release(nil) // a waiting request disconnects before the leader
	q[0].Release(nil)
	if turn, ok := outcomeOf(q[2]); !ok || turn != (cache.Outcome{}) {
		t.Fatalf("the longest waiting: %+v, %v", turn, ok)
	}
	if _, ok := outcomeOf(q[3]); ok {
		t.Error("two lead")
	}
	finishWith(q[2], "x")
	if turn, ok := outcomeOf(q[3]); !ok || textOf(turn.Entry) != "x" {
		t.Errorf("the last: %+v, %v", turn, ok)
	}
	q[0].Release(nil) // again
}

// TestAnAnswerTooLargeToShareReleasesTheWaiters: one after another, each waiter would wait for an answer that it cannot get.
func TestAnAnswerTooLargeToShareReleasesTheWaiters(t *testing.T) {
	s, _ := newStore(8 << 10)
	q := joinAll(t, s, 4)
	q[0].Record(&chat.Event{Kind: chat.Start})
	q[0].Record(&chat.Event{Kind: chat.Text, Text: make([]byte, 2<<10)})
	for i := range 3 {
		if turn, ok := outcomeOf(q[i+1]); !ok || turn != (cache.Outcome{}) {
			t.Errorf("ticket %d: %+v, %v", i+1, turn, ok)
		}
	}
	q[0].Record(&chat.Event{Kind: chat.End})
	q[0].Finish(cache.Served{})
	for i := range q {
		q[i].Release(nil)
	}
	if _, waits := newTicket(s, "a", 1, unlimited).Join(); waits {
		t.Error("the flight has not ended")
	}
}

func TestADisconnectedNextLeaderIsReplaced(t *testing.T) {
	s, _ := newStore(0)
	q := joinAll(t, s, 3)
	q[0].Release(nil)
	q[1].Release(nil) // it became the leader, without receiving the outcome
	if turn, ok := outcomeOf(q[2]); !ok || turn != (cache.Outcome{}) {
		t.Errorf("%+v, %v", turn, ok)
	}
	q[2].Release(nil)
	if _, waits := newTicket(s, "a", 1, unlimited).Join(); waits {
		t.Error("the flight has not ended")
	}
}

func TestAFailedCallIsNotRepeatedByEveryWaiter(t *testing.T) {
	s, _ := newStore(0)
	q := joinAll(t, s, 5)
	down := errors.New("down")
	q[0].Release(down)
	if turn, ok := outcomeOf(q[1]); !ok || turn != (cache.Outcome{}) {
		t.Fatalf("the second does not try: %+v, %v", turn, ok)
	}
	q[1].Release(down)
	for i := range 3 {
		if turn, ok := outcomeOf(q[i+2]); !ok || !errors.Is(turn.Err, down) {
			t.Errorf("ticket %d: %+v, %v", i+2, turn, ok)
		}
	}
	if _, waits := newTicket(s, "a", 1, unlimited).Join(); waits {
		t.Error("the flight has not ended")
	}
}

func TestWaitersGetAnswersThatAreNotStored(t *testing.T) {
	s, _ := newStore(0)
	q := joinAll(t, s, 2)
	record(q[0], chat.Event{Kind: chat.Stop, Reason: chat.StopRefusal})
	q[0].Finish(cache.Served{})
	if turn, ok := outcomeOf(q[1]); !ok || turn.Entry == nil {
		t.Errorf("%+v, %v", turn, ok)
	}
	if newTicket(s, "a", 1, unlimited).Fresh(t.Context()) != nil {
		t.Error("a refusal is stored")
	}
}

func TestAnAnswerTooLargeToStoreReleasesTheWaiters(t *testing.T) {
	s, _ := newStore(1 << 20)
	q := joinAll(t, s, 2)
	record(q[0], chat.Event{Kind: chat.Text, Text: make([]byte, 1<<20)})
	q[0].Finish(cache.Served{})
	q[0].Release(nil)
	if turn, ok := outcomeOf(q[1]); !ok || turn != (cache.Outcome{}) {
		t.Errorf("%+v, %v", turn, ok)
	}
}

// TestNoWaiterIsForgotten runs random requests that answer, fail or disconnect at any time: every one gets an outcome, and no two make the
// same call concurrently.
func TestNoWaiterIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cache.New(cache.Options{MaxBytes: 1 << 20})
		var calling [3]atomic.Int32
		var wg sync.WaitGroup
		for i := range 300 {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			wg.Go(func() {
				<-time.After(time.Duration(rng.IntN(1000)) * time.Millisecond)
				n := rng.IntN(len(calling))
				q := s.Ticket("a", key(n), cache.Format{}, unlimited, 100*time.Millisecond)
				defer q.Release(nil)
				timeout := time.After(time.Duration(rng.IntN(2000)) * time.Millisecond)
				e, waits := q.Join()
				if waits {
					select {
					case turn := <-q.Outcome():
						if turn.Entry != nil || turn.Err != nil {
							return
						}
					case <-timeout:
						return
					}
				} else if e != nil {
					return
				}
				if calling[n].Add(1) != 1 {
					t.Error("two make the same call")
				}
				<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond)
				calling[n].Add(-1)
				switch rng.IntN(3) {
				case 0:
					q.Release(errors.New("failed"))
				case 1:
					finishWith(q, "x")
				}
			})
		}
		wg.Wait()
		for n := range calling {
			if _, waits := s.Ticket("a", key(n), cache.Format{}, cache.Control{}, 0).Join(); waits {
				t.Errorf("question %d has a flight without a leader", n)
			}
		}
	})
}
