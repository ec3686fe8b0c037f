package ledger

import (
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

// stand makes a standing hold.
func makeStanding(t *testing.T, l *Ledger, request string, amount policy.Micro) {
	t.Helper()
	if err := l.ConvertToStandingHold(t.Context(), reserve(t, l, "k", request, amount), "me"); err != nil {
		t.Fatal(err)
	}
}

func mustBalance(t *testing.T, l *Ledger, amount, held policy.Micro) {
	t.Helper()
	b, err := l.Balance(t.Context(), "k")
	if err != nil || b.Amount != amount || b.Held != held {
		t.Errorf("balance %+v, %v; want %d of which %d are held", b, err, amount, held)
	}
}

func wantSoundBooks(t *testing.T, l *Ledger) {
	t.Helper()
	if r, err := l.Audit(t.Context()); err != nil || !r.OK {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestAStandingHoldOutlivesItsGateway: the money cannot be spent otherwise, the audit includes it, and it is charged after a restart.
func TestAStandingHoldOutlivesItsGateway(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	withKey(t, l, "k", 5*usd)
	makeStanding(t, l, "later", 3*usd)
	mustBalance(t, l, 5*usd, 3*usd)
	if open, held := l.Holds(); open != 0 || held != 0 {
		t.Errorf("in memory %d holds of %d", open, held)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	l = gateway(t, path)
	mustBalance(t, l, 5*usd, 3*usd)
	wantSoundBooks(t, l)
	var short *InsufficientError
	if _, err := l.Reserve(t.Context(), "k", "now", 3*usd); !errors.As(err, &short) {
		t.Errorf("another request gets the money: %v", err)
	}
	if all, err := l.RequestsWithStandingHold(t.Context(), "me"); err != nil || len(all) != 1 || all[0] != "later" {
		t.Errorf("standing are %v, %v", all, err)
	}
	h, err := l.TakeStandingHold(t.Context(), "k", "later")
	if err != nil || h.Amount() != 3*usd {
		t.Fatalf("%v, %v", h, err)
	}
	if r := capture(t, l, h, usd); r.Charged != usd || r.Repeated {
		t.Errorf("%+v", r)
	}
	mustBalance(t, l, 4*usd, 0)
	wantSoundBooks(t, l)
}

// TestARequestThatWasChargedIsNotChargedAgain, although its standing hold was released; nor does it hold anything.
func TestARequestThatWasChargedIsNotChargedAgain(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	withKey(t, l, "k", 5*usd)
	makeStanding(t, l, "later", 2*usd)
	for range 2 {
		h, err := l.TakeStandingHold(t.Context(), "k", "later")
		if err != nil {
			t.Fatal(err)
		}
		capture(t, l, h, usd)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = gateway(t, path)
	}
	mustBalance(t, l, 4*usd, 0)
	wantSoundBooks(t, l)
	if is, err := l.Charged(t.Context(), "k", "later"); err != nil || !is {
		t.Errorf("charged: %v, %v", is, err)
	}
	if is, err := l.Charged(t.Context(), "k", "other"); err != nil || is {
		t.Errorf("another is charged: %v, %v", is, err)
	}
}

func TestAStandingHoldIsReleasedOnce(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	makeStanding(t, l, "later", 2*usd)
	makeStanding(t, l, "nothing", 0)
	for range 2 {
		if err := l.ReleaseStandingHold(t.Context(), "later"); err != nil {
			t.Fatal(err)
		}
		mustBalance(t, l, 5*usd, 0)
	}
	wantSoundBooks(t, l)
}

// TestAnOldStandingHoldIsReleased: its owner's store was lost.
func TestAnOldStandingHoldIsReleased(t *testing.T) {
	path := storePath(t)
	now := time.Now()
	l := openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour, Now: func() time.Time { return now }})
	withKey(t, l, "k", 5*usd)
	makeStanding(t, l, "later", 2*usd)
	l.releaseStaleStandingHolds()
	mustBalance(t, l, 5*usd, 2*usd)
	now = now.Add(maxStandingHoldAge + time.Minute)
	l.releaseStaleStandingHolds()
	mustBalance(t, l, 5*usd, 0)
	wantSoundBooks(t, l)
}
