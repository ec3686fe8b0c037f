package ledger

import (
	"errors"
	"testing"

	"bardo.money/gateway/policy"
)

// TestSolventRefusesKeysThatHaveNothing, and blocked ones; money held by requests in flight may become free.
func TestSolventRefusesKeysThatHaveNothing(t *testing.T) {
	path := storePath(t)
	l, other := gateway(t, path), tool(t, path)
	wantSolvent := func(id policy.Account, want bool) {
		t.Helper()
		err := l.Solvent(t.Context(), id)
		var short *InsufficientError
		if want != (err == nil) || err != nil && (!errors.As(err, &short) || short.Needed != 0) {
			t.Errorf("%s: %v, want solvent: %v", id, err, want)
		}
	}
	withKey(t, l, "rich", policy.USD)
	withKey(t, l, "poor", 0)
	withKey(t, l, "spender", 100)
	if err := l.CreateKey(t.Context(), KeyRow{ID: "metered", Name: "m"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.CreateKey(t.Context(), KeyRow{ID: "trusted", Name: "t", Prepaid: true, Credit: 50}, 0); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[policy.Account]bool{"rich": true, "poor": false, "spender": true, "metered": true, "trusted": true} {
		wantSolvent(id, want)
	}
	h := reserve(t, l, "spender", "r1", 100)
	wantSolvent("spender", true) // the request may cost less
	capture(t, l, h, 100)
	wantSolvent("spender", false)

	h = reserve(t, l, "rich", "r2", policy.USD/2)
	wantSolvent("rich", true)
	capture(t, l, h, 2*policy.USD) // more than the balance: the key is blocked
	wantSolvent("rich", false)
	if _, err := other.Deposit(t.Context(), "rich", policy.USD, "d"); err != nil { // by another process
		t.Fatal(err)
	}
	wantSolvent("rich", true)
	if err := l.Solvent(t.Context(), "nobody"); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("got %v", err)
	}
}
