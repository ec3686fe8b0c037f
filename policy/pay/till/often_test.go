package till

import (
	"testing"
	"time"
)

// TestATransactionIsGivenToTheNodeAgainNowAndThen: the node may have dropped it; it is not sent every second.
func TestATransactionIsGivenToTheNodeAgainNowAndThen(t *testing.T) {
	s := open(t, t.TempDir(), "")
	s.chain.sends = false
	p := s.take(t, 1)
	s.serve(t, &p, 4000)
	for second, want := range []int{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3} {
		later := time.Second
		if second == 0 {
			later = 0
		}
		if s.passAfter(t, later); s.chain.sent != want || s.chain.prepared != 1 {
			t.Errorf("after %d s it was sent %d times, want %d; %d transactions were signed", second, s.chain.sent, want, s.chain.prepared)
		}
	}
}

// TestOnePassLooksForFewReleasedPayments, so that many do not delay the settlement of others.
func TestOnePassLooksForFewReleasedPayments(t *testing.T) {
	s := open(t, t.TempDir(), "")
	for n := range maxLookups + 1 {
		s.release(t, byte(n+1))
	}
	s.passAfter(t, 16*time.Second)
	if s.chain.asked != maxLookups {
		t.Errorf("the first pass asked %d times, want %d", s.chain.asked, maxLookups)
	}
	s.passAfter(t, time.Second)
	if s.chain.asked != maxLookups+1 {
		t.Errorf("two passes asked %d times, want %d", s.chain.asked, maxLookups+1)
	}
}
