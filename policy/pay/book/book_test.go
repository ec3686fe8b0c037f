package book

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"bardo.money/gateway/policy/pay"
)

func open(t *testing.T, path string) *Book {
	t.Helper()
	b, err := Open(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

var (
	terms = &pay.Terms{Network: pay.Network{ID: 8453, Name: "base"}, Fee: 1000}
	one   = &pay.Payment{Authorization: pay.Authorization{From: pay.Address{1}, Value: 5000, ValidBefore: 1 << 39, Nonce: pay.Word{2}}, Signature: make([]byte, 65)}
)

// TestPitfall1AndTwoBooksOfOneFile: what one gateway has reserved, another neither reserves nor changes while the first one runs, and takes over afterwards.
func TestPitfall1AndTwoBooksOfOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	a, b := open(t, path), open(t, path)
	p, err := a.Reserve(t.Context(), terms, one, "req_1", 7, Limits{})
	if err != nil || p.Service != Serving || p.FromBlock != 7 || p.Fee != 1000 {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := b.Reserve(t.Context(), terms, one, "req_2", 8, Limits{}); !errors.Is(err, ErrInUse) {
		t.Errorf("reserved twice: %v", err)
	}
	if err := b.MarkServed(t.Context(), p.ID, 1, 1); !errors.Is(err, ErrLost) {
		t.Errorf("served by another gateway: %v", err)
	}
	if err := b.Release(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if left, err := b.Adopt(t.Context()); len(left) != 0 || err != nil {
		t.Errorf("a gateway that runs lost %+v, %v", left, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := b.Adopt(t.Context())
	if len(left) != 1 || err != nil || left[0].Request != "req_1" {
		t.Fatalf("%+v, %v", left, err)
	}
	if err := b.Release(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	other := *one
	other.ValidBefore++
	var r *pay.Refusal
	if _, err := b.Reserve(t.Context(), terms, &other, "req_3", 8, Limits{}); !errors.As(err, &r) || r.Reason != pay.ReasonNonceUsed {
		t.Errorf("another authorization of the nonce: %v", err)
	}
	if p, err = b.Reserve(t.Context(), terms, one, "req_4", 9, Limits{}); err != nil || p.Request != "req_4" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAFileOfANewerVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	b := open(t, path)
	if _, err := b.db.ExecContext(t.Context(), "PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, time.Now); err == nil {
		t.Error("it was opened")
	}
	if _, err := Open(t.Context(), filepath.Join(path, "no"), time.Now); err == nil {
		t.Error("a file below a file")
	}
	if _, ok, err := b.ByRequest(t.Context(), "req_x"); ok || err != nil {
		t.Error("a payment of no request")
	}
}

// TestAFileOfTheFirstVersionIsUpgraded: its payments are of scheme exact, and what was served is moved as a whole.
func TestAFileOfTheFirstVersionIsUpgraded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	b := open(t, path)
	p, err := b.Reserve(t.Context(), terms, one, "req_1", 7, Limits{})
	if err != nil || b.MarkServed(t.Context(), p.ID, 10, 10) != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"ALTER TABLE payment DROP COLUMN upto", "ALTER TABLE payment DROP COLUMN facilitator", "ALTER TABLE payment DROP COLUMN captured", "PRAGMA user_version = 1"} {
		if _, err := b.db.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	got, err := open(t, path).ByID(t.Context(), p.ID)
	if err != nil || got.UpTo || got.Captured != 5000 || got.Charge != 10 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPermitsAreStoredWhole, with their facilitator, and count with what is moved of them.
func TestPermitsAreStoredWhole(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "payments.db"))
	two := *one
	two.UpTo, two.Facilitator = true, pay.Address{9}
	p, err := b.Reserve(t.Context(), terms, &two, "req_1", 7, Limits{Exposure: 5000})
	if err != nil || p.Authorization != two.Authorization {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := b.MarkServed(t.Context(), p.ID, 1000, 2000); err != nil {
		t.Fatal(err)
	}
	if open, err := b.Unsettled(t.Context(), two.From); open != 2000 || err != nil {
		t.Errorf("%s are on their way, %v", open, err)
	}
	if p, err = b.ByID(t.Context(), p.ID); err != nil || p.Transfer().Amount != 2000 || p.Transfer().Value != 5000 {
		t.Errorf("%+v, %v", p, err)
	}
	three := two
	three.Nonce[0]++
	three.Value = 3000
	if _, err := b.Reserve(t.Context(), terms, &three, "req_2", 7, Limits{Exposure: 5000}); err != nil {
		t.Errorf("what is not moved does not count: %v", err)
	}
	if err := b.MarkServed(t.Context(), p.ID+1, 1, 3001); err == nil {
		t.Error("more than was signed is moved")
	}
}
