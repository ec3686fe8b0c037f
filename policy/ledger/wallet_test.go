package ledger

import (
	"errors"
	"testing"

	"bardo.money/gateway/policy"
)

// TestAWalletsPaymentIsCreditedOnceAndTakenBackOnce, and the cost of its request is the operator's loss.
func TestAWalletsPaymentIsCreditedOnceAndTakenBackOnce(t *testing.T) {
	l, err := open(t.Context(), storePath(t), Options{Gateway: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const wallet = policy.Account("wallet_1")
	has := func(want policy.Micro) {
		t.Helper()
		b, err := l.Balance(t.Context(), wallet)
		if err != nil || b.Amount != want {
			t.Errorf("the wallet has %s, want %s, %v", b.Amount, want, err)
		}
	}
	for range 2 {
		if err := l.CreditWallet(t.Context(), wallet, 10_000, 1000, "p1"); err != nil {
			t.Fatal(err)
		}
		has(9000)
	}
	h, err := l.Reserve(t.Context(), wallet, "r1", 4000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Capture(t.Context(), h, Charge{Amount: 4000}); err != nil {
		t.Fatal(err)
	}
	has(5000)
	loss, err := l.TakeBack(t.Context(), wallet, 10_000, "p1")
	if err != nil || loss < 5000 {
		t.Errorf("a loss of %s, %v", loss, err)
	}
	left := loss - 5000 // in the gateway's block
	has(left)
	if again, err := l.TakeBack(t.Context(), wallet, 10_000, "p1"); again != 0 || err != nil {
		t.Errorf("taken back again: %s, %v", again, err)
	}
	has(left)
	for _, bad := range [][2]policy.Micro{{0, 0}, {5, 6}, {5, -1}} {
		if err := l.CreditWallet(t.Context(), wallet, bad[0], bad[1], "p2"); !errors.Is(err, ErrAmount) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := l.TakeBack(t.Context(), "wallet_2", 5, "p"); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("an unknown wallet: %v", err)
	}
	if r, err := l.Audit(t.Context()); err != nil || !r.OK {
		t.Errorf("%+v, %v", r, err)
	}
}
