package usage

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"bardo.money/gateway/policy"
)

func TestSumsOfRefusalsAreBounded(t *testing.T) {
	var s Refusals
	for i := range 3 * refusalCounts {
		s.add(refusalKey{account: policy.Account(fmt.Sprint(i)), minute: 1, reason: "invalid_request", status: 400}, 1)
	}
	counts := s.Take()
	var all int64
	for _, n := range counts {
		all += n
	}
	if len(counts) > refusalCounts+1 || all != 3*refusalCounts {
		t.Errorf("%d sums of %d refusals", len(counts), all)
	}
}

// TestSavingsAreReadAsTheyWereWritten.
func TestSavingsAreReadAsTheyWereWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 6 {
		var all []policy.Saving
		for i := range n {
			all = append(all, policy.Saving{Layer: fmt.Sprint("l", i), Tokens: rng.Int64(), Amount: policy.Micro(rng.Int64() - rng.Int64())})
		}
		if have, err := parseSavings(savingsText(all)); err != nil || !reflect.DeepEqual(have, all) {
			t.Errorf("%+v %v, want %+v", have, err, all)
		}
	}
	for _, s := range []string{"l4", "l4 x 1", "l4 1", "l4 1 y", ";"} {
		if _, err := parseSavings(s); err == nil {
			t.Errorf("%q is read", s)
		}
	}
}
