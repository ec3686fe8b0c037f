package outgoing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// clock is a clock that the test sets.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time       { return time.UnixMicro(c.at.Load()) }
func (c *clock) pass(d time.Duration) { c.at.Add(d.Microseconds()) }
func (c *clock) open(t *testing.T, path string) *Book {
	t.Helper()
	b, err := OpenBook(t.Context(), path, c.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func newBook(t *testing.T) (*Book, *clock) {
	t.Helper()
	c := newClock()
	return c.open(t, filepath.Join(t.TempDir(), "outgoing.db")), c
}

var wallet = pay.Address{1}

// signed is an authorization of a request; nonces differ.
func signed(request string, amount policy.Micro, nonce byte) *Authorization {
	return &Authorization{
		Purpose: "provider", Request: request, Network: "eip155:8453", Asset: pay.Address{2}, Header: "PAYMENT",
		Authorization: pay.Authorization{From: wallet, To: pay.Address{3}, Value: amount, ValidAfter: 1, ValidBefore: 1_700_000_000, Nonce: pay.Word{nonce}},
	}
}

func mustAdd(t *testing.T, b *Book, a *Authorization, maxDaily policy.Micro) {
	t.Helper()
	if err := b.Add(t.Context(), a, maxDaily); err != nil {
		t.Fatal(err)
	}
}

func wantSpent(t *testing.T, b *Book, want policy.Micro) {
	t.Helper()
	got, err := b.Spent(t.Context(), wallet, "provider")
	if err != nil || got != want {
		t.Errorf("$%s are spent (%v), want $%s", got, err, want)
	}
}

// TestPitfall13ARequestIsSignedOnceWhileItIsInDoubt, also after a restart, and in another process.
func TestPitfall13ARequestIsSignedOnceWhileItIsInDoubt(t *testing.T) {
	c, path := newClock(), filepath.Join(t.TempDir(), "outgoing.db")
	b := c.open(t, path)
	first := signed("req_1", 100, 1)
	mustAdd(t, b, first, 0)
	other := c.open(t, path)
	for _, book := range []*Book{b, other} {
		err := book.Add(t.Context(), signed("req_1", 100, 2), 0)
		doubt, ok := errors.AsType[*UnresolvedError](err)
		if !ok || doubt.First.ID != first.ID || doubt.First.Header != "PAYMENT" || doubt.First.Nonce != first.Nonce {
			t.Errorf("a second one: %v", err)
		}
	}
	mustAdd(t, other, signed("req_2", 100, 3), 0)
	if err := b.Fail(t.Context(), first.ID, "no answer"); err != nil {
		t.Fatal(err)
	}
	a, ok, err := other.Unresolved(t.Context(), wallet, "provider", "req_1")
	if err != nil || !ok || a.Reason != "no answer" || a.State != Open || a.Value != 100 || a.ValidBefore != 1_700_000_000 || a.Asset != first.Asset || a.To != first.To {
		t.Errorf("in doubt: %+v %v %v", a, ok, err)
	}
	if err := b.Answer(t.Context(), first.ID, "0xabc"); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := b.Unresolved(t.Context(), wallet, "provider", "req_1"); ok {
		t.Error("an answered one is in doubt")
	}
	mustAdd(t, b, signed("req_1", 100, 4), 0) // its outcome is known
	if err := b.Add(t.Context(), signed("req_9", 100, 4), 0); err == nil {
		t.Error("a nonce is signed twice")
	}
}

// TestADaysCapHoldsForWhatIsInDoubt: an open authorization counts until the chain shows that it expired unused; and for 24 hours.
func TestADaysCapHoldsForWhatIsInDoubt(t *testing.T) {
	b, c := newBook(t)
	one, two, three := signed("1", 40, 1), signed("2", 40, 2), signed("3", 20, 3)
	mustAdd(t, b, one, 100)
	c.pass(time.Hour)
	mustAdd(t, b, two, 100)
	mustAdd(t, b, three, 100)
	wantSpent(t, b, 100)
	err := b.Add(t.Context(), signed("4", 1, 4), 100)
	if full, ok := errors.AsType[*CapError](err); !ok || full.Spent != 100 || full.Cap != 100 {
		t.Fatalf("beyond the cap: %v", err)
	}
	elsewhere := signed("5", 90, 5)
	elsewhere.Purpose = "command"
	mustAdd(t, b, elsewhere, 100) // of another purpose, with its own cap
	if err := b.Answer(t.Context(), one.ID, ""); err != nil {
		t.Fatal(err)
	}
	for id, used := range map[int64]bool{one.ID: true, two.ID: false} {
		if err := b.Resolve(t.Context(), id, used); err != nil {
			t.Fatal(err)
		}
	}
	wantSpent(t, b, 60)
	if err := b.Resolve(t.Context(), one.ID, false); err != nil { // a resolved one does not change
		t.Fatal(err)
	}
	wantSpent(t, b, 60)
	risk, err := b.AtRisk(t.Context())
	if err != nil || risk != 110 {
		t.Errorf("$%s are in doubt (%v), want what is open", risk, err)
	}
	c.pass(23 * time.Hour)
	wantSpent(t, b, 20) // the first is a day old
	c.pass(time.Hour)
	wantSpent(t, b, 0)
}

// TestManyProcessesKeepToOneCap: of concurrent payments, only those within the cap are stored.
func TestManyProcessesKeepToOneCap(t *testing.T) {
	c, path := newClock(), filepath.Join(t.TempDir(), "outgoing.db")
	books := []*Book{c.open(t, path), c.open(t, path), c.open(t, path)}
	var stored atomic.Int64
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			err := books[i%len(books)].Add(context.Background(), signed(fmt.Sprint(i), 10, byte(i)), 95)
			if _, full := errors.AsType[*CapError](err); err != nil && !full {
				t.Error(err)
			}
			if err == nil {
				stored.Add(1)
			}
		})
	}
	all.Wait()
	if n := stored.Load(); n != 9 {
		t.Errorf("%d payments of 10 fit into 95", n)
	}
	wantSpent(t, books[0], 90)
}

// TestWhatTheChainIsAskedFor: authorizations that are not resolved. Answered ones are not sent again.
func TestWhatTheChainIsAskedFor(t *testing.T) {
	b, c := newBook(t)
	states := map[string]func(id int64) error{
		"open":     func(int64) error { return nil },
		"answered": func(id int64) error { return b.Answer(t.Context(), id, "0xabc") },
		"used":     func(id int64) error { return b.Resolve(t.Context(), id, true) },
		"unused":   func(id int64) error { return b.Resolve(t.Context(), id, false) },
	}
	for i, name := range []string{"open", "answered", "used", "unused"} {
		a := signed(name, 10, byte(i))
		mustAdd(t, b, a, 0)
		c.pass(time.Second)
		if err := states[name](a.ID); err != nil {
			t.Fatal(err)
		}
		got, err := b.Find(t.Context(), a.ID)
		if err != nil || string(got.State) != name || got.At.Equal(got.Changed) != (name == "open") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if kept := got.Header != ""; kept != (name == "open") {
			t.Errorf("%s: its payment is kept: %v", name, kept)
		}
	}
	open, err := b.Unsettled(t.Context())
	if err != nil || len(open) != 2 || open[0].Request != "open" || open[1].Request != "answered" || open[1].Tx != "0xabc" {
		t.Errorf("unsettled: %+v, %v", open, err)
	}
	recent, err := b.Recent(t.Context(), 3)
	if err != nil || len(recent) != 3 || recent[0].Request != "unused" || recent[2].Request != "answered" {
		t.Errorf("recent: %+v, %v", recent, err)
	}
	if _, err := b.Find(t.Context(), 99); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestWhatIsNoPaymentIsNotStored.
func TestWhatIsNoPaymentIsNotStored(t *testing.T) {
	b, _ := newBook(t)
	for _, amount := range []policy.Micro{0, -5} {
		if err := b.Add(t.Context(), signed("r", amount, 1), 0); err == nil {
			t.Errorf("a payment of %d is stored", amount)
		}
	}
	wantSpent(t, b, 0)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Add(gone, signed("r", 5, 1), 0); err == nil {
		t.Error("a payment was stored for nobody")
	}
	mustAdd(t, b, signed("r", 5, 1), 0)
}

// TestAnAnswerChangesNothingThatTheChainHasSaid: a late answer does not change a resolved authorization.
func TestAnAnswerChangesNothingThatTheChainHasSaid(t *testing.T) {
	b, _ := newBook(t)
	for nonce, used := range []bool{true, false} {
		a := signed(fmt.Sprint("req_", nonce), 100, byte(nonce))
		mustAdd(t, b, a, 0)
		if err := errors.Join(b.Resolve(t.Context(), a.ID, used), b.Answer(t.Context(), a.ID, "0x1"), b.Fail(t.Context(), a.ID, "no answer")); err != nil {
			t.Fatal(err)
		}
		want := map[bool]State{true: Used, false: Unused}[used]
		if got, err := b.Find(t.Context(), a.ID); err != nil || got.State != want || got.Tx != "" || got.Reason != "" {
			t.Errorf("used %v: %+v, %v", used, got, err)
		}
	}
	wantSpent(t, b, 100)
}
