package meter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/policy"
)

func TestEstimatesFollowWhatProvidersCount(t *testing.T) {
	m := meter.New(nil, nil, nil)
	for i := range 200 {
		if i < 5 && m.Corrected("m", 1000) != 1000 {
			t.Errorf("after %d counts: %d", i, m.Corrected("m", 1000))
		}
		m.LearnTokens("m", 1000, 800+int64(i%3)-1)
	}
	if n := m.Corrected("m", 10_000); n < 7_950 || n > 8_050 {
		t.Errorf("10,000 tokens are corrected to %d", n)
	}
	if n := m.AtLeast("m", 10_000); n != 10_000 {
		t.Errorf("what is set aside: %d", n)
	}
	for range 200 {
		m.LearnTokens("m", 1000, 1300)
	}
	if n := m.AtLeast("m", 10_000); n < 12_900 || n > 13_000 {
		t.Errorf("a provider that counts more: %d", n)
	}
	if n := m.Corrected("other", 10_000); n != 10_000 {
		t.Errorf("another model: %d", n)
	}
}

// TestACorrectionIsBounded: whatever a provider reports, a correction stays between one half and two, and reservations are never lower than without
// one.
func TestACorrectionIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	m := meter.New(nil, nil, nil)
	for range 20_000 {
		model := policy.ModelID(fmt.Sprint(rng.IntN(3)))
		m.LearnTokens(model, rng.Int64N(1<<40)-5, rng.Int64()-rng.Int64())
		n := rng.Int64N(1 << 30)
		if c := m.Corrected(model, n); c < n/2-1 || c > 2*n {
			t.Fatalf("%d is corrected to %d", n, c)
		}
		if m.AtLeast(model, n) < n {
			t.Fatalf("%d becomes less", n)
		}
	}
}

// TestShortRequestsTeachNothing: providers' additions would be most of their tokens.
func TestShortRequestsTeachNothing(t *testing.T) {
	m := meter.New(nil, nil, nil)
	for range 50 {
		m.LearnTokens("m", 20, 400)
	}
	if n := m.Corrected("m", 1000); n != 1000 {
		t.Errorf("%d", n)
	}
}
