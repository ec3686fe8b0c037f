package stake

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"bardo.money/gateway/policy"
)

func vvv(n string) *big.Int {
	f, _ := new(big.Float).SetPrec(256).SetString(n)
	i, _ := f.Mul(f, unit).Int(nil)
	return i
}

// TestP11TheLimitFollowsTheStakeAndThePhase: stakedVvv × creditRatePerVvv × dailyUsdcRate × phaseMultiplier, and nothing below the minimum.
func TestP11TheLimitFollowsTheStakeAndThePhase(t *testing.T) {
	t.Parallel()
	r := Rates{Credit: 2, USD: 0.05, Min: 100}
	for _, row := range []struct {
		staked string
		phase  policy.Phase
		want   policy.Micro
	}{
		{"100", policy.PhaseUnset, 10 * policy.USD},
		{"100", policy.PhaseThriving, 10 * policy.USD},
		{"100", policy.PhaseStable, 10 * policy.USD},
		{"100", policy.PhaseConservation, 5 * policy.USD},
		{"100", policy.PhaseDeclining, policy.USD},
		{"100", policy.PhaseTerminal, 0},
		{"50", policy.PhaseThriving, 5 * policy.USD}, // 100 credits, which is not below the minimum
		{"49.999999", policy.PhaseThriving, 0},
		{"0", policy.PhaseThriving, 0},
	} {
		if got := r.Limit(r.Credits(vvv(row.staked)), row.phase); got != row.want {
			t.Errorf("%s VVV, %s: %s, want %s", row.staked, row.phase, got, row.want)
		}
	}
	most := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
	if got := r.Limit(r.Credits(most), policy.PhaseThriving); got != maxLimit {
		t.Errorf("a node that says 2^256-1: %s", got)
	}
	if got := r.Limit(math.NaN(), policy.PhaseThriving); got != 0 {
		t.Errorf("NaN: %s", got)
	}
}

// TestP11WhatHappensToAKey: when the phase changes it is replaced or throttled, and without a limit it is revoked.
func TestP11WhatHappensToAKey(t *testing.T) {
	t.Parallel()
	k := Key{"k1", 5, policy.PhaseStable}
	for _, row := range []struct {
		key   Key
		limit policy.Micro
		phase policy.Phase
		want  Action
	}{
		{Key{}, 5, policy.PhaseStable, Issue},
		{Key{}, 0, policy.PhaseTerminal, Keep},
		{k, 5, policy.PhaseStable, Keep},
		{k, 6, policy.PhaseStable, Raise},
		{k, 4, policy.PhaseStable, Throttle},
		{k, 2, policy.PhaseConservation, Throttle},
		{k, 1, policy.PhaseDeclining, Throttle},
		{k, 0, policy.PhaseTerminal, Revoke},
		{k, 0, policy.PhaseStable, Revoke},
		{k, 5, policy.PhaseThriving, Rotate},
		{Key{"k1", 2, policy.PhaseConservation}, 5, policy.PhaseStable, Rotate},
	} {
		if got := Decide(row.key, row.limit, row.phase); got != row.want {
			t.Errorf("%+v, %d, %s: %q, want %q", row.key, row.limit, row.phase, got, row.want)
		}
	}
}

func document(b []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestDocumentsOfTheKeyAPI(t *testing.T) {
	t.Parallel()
	if got, want := document(NewKey("bardo 1", 2_500_000)), `{"apiKeyType":"INFERENCE","description":"bardo 1","consumptionLimit":{"usd":2.500000,"diem":2.500000},"limitPeriod":"EPOCH"}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := document(NewLimit("k1", 0)), `{"id":"k1","consumptionLimit":{"usd":0.000000,"diem":0.000000},"limitPeriod":"EPOCH"}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if id, key, err := ParseNew([]byte(`{"data":{"id":"k1","apiKey":"s","apiKeyType":"INFERENCE"},"success":true}`)); id != "k1" || key != "s" || err != nil {
		t.Error(id, key, err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"data":{"id":"k1"}}`, `{"data":{"apiKey":"s"}}`, `{"data":{"id":7,"apiKey":"s"}}`} {
		if _, _, err := ParseNew([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	ids, err := ParseNamed([]byte(`{"data":[{"id":"a","description":"bardo 1"},{"id":"b","description":"bardo 2"},{"id":"c","description":"bardo 1"},{"id":"","description":"bardo 1"}]}`), "bardo 1")
	if err != nil || !slices.Equal(ids, []string{"a", "c"}) {
		t.Error(ids, err)
	}
	for _, bad := range []string{``, `{}`, `{"data":null}`, `{"data":{}}`} {
		if _, err := ParseNamed([]byte(bad), ""); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
