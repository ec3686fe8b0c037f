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

// crowd are n tickets of one question: the first leads, the others wait.
func crowd(t *testing.T, s *cache.Store, n int) []*cache.Ticket {
	t.Helper()
	out := make([]*cache.Ticket, n)
	for i := range out {
		out[i] = ask(s, "a", 1, free)
		if e, waits := out[i].Join(); e != nil || waits != (i > 0) {
			t.Fatalf("ticket %d: entry %v, waits %v", i, e, waits)
		}
	}
	return out
}

// turnOf is a turn that has come; ok is false when none has.
func turnOf(q *cache.Ticket) (turn cache.Turn, ok bool) {
	select {
	case turn = <-q.Turn():
		return turn, true
	default:
		return turn, false
	}
}

func TestD33OneCallAnswersAll(t *testing.T) {
	s, _ := newStore(0)
	q := crowd(t, s, 5)
	answered(q[0], "x")
	for i := range 4 {
		if turn, ok := turnOf(q[i+1]); !ok || says(turn.Entry) != "x" || turn.Err != nil {
			t.Errorf("ticket %d: %+v, %v", i+1, turn, ok)
		}
	}
	for i := range q {
		q[i].Leave(nil)
	}
	if e, waits := ask(s, "a", 1, free).Join(); says(e) != "x" || waits {
		t.Errorf("the next one: %q, waits %v", says(e), waits)
	}
}

func TestK60OthersDoNotWaitForATenantsCall(t *testing.T) {
	s, _ := newStore(0)
	crowd(t, s, 2)
	if _, waits := ask(s, "b", 1, free).Join(); waits {
		t.Error("b waits for a's call")
	}
	if _, waits := ask(s, "a", 2, free).Join(); waits {
		t.Error("another question waits")
	}
}

func TestWhoWantsItsOwnAnswerNeitherLeadsNorFollows(t *testing.T) {
	for name, change := range map[string]func(*cache.Control){
		"no-cache": func(c *cache.Control) { c.NoLookup = true },
		"no-store": func(c *cache.Control) { c.NoStore = true },
	} {
		s, _ := newStore(0)
		c := free
		change(&c)
		if _, waits := ask(s, "a", 1, c).Join(); waits {
			t.Errorf("%s waits for nobody", name)
		}
		if _, waits := ask(s, "a", 1, free).Join(); waits {
			t.Errorf("somebody waits for %s", name)
		}
		if _, waits := ask(s, "a", 1, c).Join(); waits {
			t.Errorf("%s waits", name)
		}
	}
}

func TestALeaderThatLeavesHandsOn(t *testing.T) {
	s, _ := newStore(0)
	q := crowd(t, s, 4)
	q[1].Leave(nil) // one that waits goes first
	q[0].Leave(nil)
	if turn, ok := turnOf(q[2]); !ok || turn != (cache.Turn{}) {
		t.Fatalf("the longest waiting: %+v, %v", turn, ok)
	}
	if _, ok := turnOf(q[3]); ok {
		t.Error("two lead")
	}
	answered(q[2], "x")
	if turn, ok := turnOf(q[3]); !ok || says(turn.Entry) != "x" {
		t.Errorf("the last: %+v, %v", turn, ok)
	}
	q[0].Leave(nil) // again
}

// TestAnAnswerThatIsTooLargeIsWaitedForByNobody: nobody would get it, and of all who wait each would ask only after the one before.
func TestAnAnswerThatIsTooLargeIsWaitedForByNobody(t *testing.T) {
	s, _ := newStore(8 << 10)
	q := crowd(t, s, 4)
	q[0].Record(&chat.Event{Kind: chat.Start})
	q[0].Record(&chat.Event{Kind: chat.Text, Text: make([]byte, 2<<10)})
	for i := range 3 {
		if turn, ok := turnOf(q[i+1]); !ok || turn != (cache.Turn{}) {
			t.Errorf("ticket %d: %+v, %v", i+1, turn, ok)
		}
	}
	q[0].Record(&chat.Event{Kind: chat.End})
	q[0].Finish(cache.Served{})
	for i := range q {
		q[i].Leave(nil)
	}
	if _, waits := ask(s, "a", 1, free).Join(); waits {
		t.Error("somebody is still thought to make the call")
	}
}

func TestOneThatWasToLeadAndLeftHandsOn(t *testing.T) {
	s, _ := newStore(0)
	q := crowd(t, s, 3)
	q[0].Leave(nil)
	q[1].Leave(nil) // it has the lead, and never knew
	if turn, ok := turnOf(q[2]); !ok || turn != (cache.Turn{}) {
		t.Errorf("%+v, %v", turn, ok)
	}
	q[2].Leave(nil)
	if _, waits := ask(s, "a", 1, free).Join(); waits {
		t.Error("somebody is still thought to make the call")
	}
}

func TestADeadProviderIsNotAskedByEachInTurn(t *testing.T) {
	s, _ := newStore(0)
	q := crowd(t, s, 5)
	down := errors.New("down")
	q[0].Leave(down)
	if turn, ok := turnOf(q[1]); !ok || turn != (cache.Turn{}) {
		t.Fatalf("the second does not try: %+v, %v", turn, ok)
	}
	q[1].Leave(down)
	for i := range 3 {
		if turn, ok := turnOf(q[i+2]); !ok || !errors.Is(turn.Err, down) {
			t.Errorf("ticket %d: %+v, %v", i+2, turn, ok)
		}
	}
	if _, waits := ask(s, "a", 1, free).Join(); waits {
		t.Error("the call has not ended")
	}
}

func TestWhoWaitsGetsWhatIsNotStored(t *testing.T) {
	s, _ := newStore(0)
	q := crowd(t, s, 2)
	record(q[0], chat.Event{Kind: chat.Stop, Reason: chat.StopRefusal})
	q[0].Finish(cache.Served{})
	if turn, ok := turnOf(q[1]); !ok || turn.Entry == nil {
		t.Errorf("%+v, %v", turn, ok)
	}
	if ask(s, "a", 1, free).Fresh() != nil {
		t.Error("a refusal is stored")
	}
}

func TestAnAnswerThatIsTooLargeIsHandedOn(t *testing.T) {
	s, _ := newStore(1 << 20)
	q := crowd(t, s, 2)
	record(q[0], chat.Event{Kind: chat.Text, Text: make([]byte, 1<<20)})
	q[0].Finish(cache.Served{})
	q[0].Leave(nil)
	if turn, ok := turnOf(q[1]); !ok || turn != (cache.Turn{}) {
		t.Errorf("%+v, %v", turn, ok)
	}
}

// TestEverybodyIsAnswered lets crowds do what they like: answer, fail, leave before or after their turn. Nobody waits for ever, and no
// two make the same call at once.
func TestEverybodyIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cache.New(cache.Options{MaxBytes: 1 << 20})
		var calling [3]atomic.Int32
		var wg sync.WaitGroup
		for i := range 300 {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			wg.Go(func() {
				<-time.After(time.Duration(rng.IntN(1000)) * time.Millisecond)
				n := rng.IntN(len(calling))
				q := s.Ask("a", key(n), cache.Form{}, free, 100*time.Millisecond)
				defer q.Leave(nil)
				patience := time.After(time.Duration(rng.IntN(2000)) * time.Millisecond)
				e, waits := q.Join()
				if waits {
					select {
					case turn := <-q.Turn():
						if turn.Entry != nil || turn.Err != nil {
							return
						}
					case <-patience:
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
					q.Leave(errors.New("failed"))
				case 1:
					answered(q, "x")
				}
			})
		}
		wg.Wait()
		for n := range calling {
			if _, waits := s.Ask("a", key(n), cache.Form{}, cache.Control{}, 0).Join(); waits {
				t.Errorf("question %d has a call that nobody makes", n)
			}
		}
	})
}
