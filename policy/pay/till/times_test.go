package till

import (
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/policy/pay"
)

// TestPitfall8TheChainsClockCounts if it is ahead: an authorization that is valid long enough by the gateway's clock may have expired when it is settled.
func TestPitfall8TheChainsClockCounts(t *testing.T) {
	s := open(t, t.TempDir(), "")
	s.chain.now = s.at.Add(9 * time.Minute) // of the payment's ten minutes
	var r *pay.Refusal
	if _, err := s.Take(t.Context(), s.payment(1), pay.Word{}, 11_000, requestOf(1)); !errors.As(err, &r) || r.Reason != pay.ReasonValidBefore {
		t.Errorf("a chain that is ahead: %v", err)
	}
	s.chain.now = s.at.Add(-time.Hour)
	late := s.payment(2)
	late.ValidBefore = uint64(s.at.Unix() + 60)
	if _, err := s.Take(t.Context(), late, pay.Word{}, 11_000, requestOf(2)); !errors.As(err, &r) || r.Reason != pay.ReasonValidBefore {
		t.Errorf("a chain that is behind: %v", err)
	}
}

// TestPitfall8AnEndThatNeverComes: a failing transfer is retried until the expiry, so its loss would never be known.
func TestPitfall8AnEndThatNeverComes(t *testing.T) {
	s := open(t, t.TempDir(), "")
	s.chain.now = s.at
	for nonce, row := range []struct {
		after time.Duration
		want  string
	}{{s.Terms.MaxTimeout() + time.Hour, ""}, {s.Terms.MaxTimeout() + time.Hour + time.Second, pay.ReasonTerms}, {200 * 365 * 24 * time.Hour, pay.ReasonTerms}} {
		p := s.payment(byte(nonce))
		p.ValidBefore = uint64(s.at.Add(row.after).Unix())
		var r *pay.Refusal
		if _, err := s.Take(t.Context(), p, pay.Word{}, 11_000, requestOf(byte(nonce))); (err == nil) != (row.want == "") || errors.As(err, &r) && r.Reason != row.want {
			t.Errorf("%s: %v, want %q", row.after, err, row.want)
		}
	}
}
