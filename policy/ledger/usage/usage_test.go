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
	for i := range 3 * maxRefusalCounts {
		s.add(refusalKey{account: policy.Account(fmt.Sprint(i)), minute: 1, reason: "invalid_request", status: 400}, 1)
	}
	counts := s.Take()
	var all int64
	for _, n := range counts {
		all += n
	}
	if len(counts) > maxRefusalCounts+1 || all != 3*maxRefusalCounts {
		t.Errorf("%d sums of %d refusals", len(counts), all)
	}
}

// TestTheLatestRefusalsAreShared: an account with many refusals displaces those of others only down to its share, and gets all places if there are no others.
func TestTheLatestRefusalsAreShared(t *testing.T) {
	var s Refusals
	refuse := func(account string, from, n int) {
		for i := range n {
			s.Count(Refusal{RequestID: fmt.Sprint(account, from+i), Account: policy.Account(account), Record: []byte("{}")})
		}
	}
	found := func(account string, n int) (sum int) {
		for i := range n {
			if _, ok := s.Find(fmt.Sprint(account, i)); ok {
				sum++
			}
		}
		return sum
	}
	many := 3 * maxLatestRefusals
	refuse("a", 0, many)
	if n := found("a", many); n != maxLatestRefusals {
		t.Errorf("%d of the only one's", n)
	}
	refuse("b", 0, 100)
	refuse("a", many, many)
	if a, b := found("a", 2*many), found("b", 100); a != maxLatestRefusals-100 || b != 100 {
		t.Errorf("%d of who is refused again and again, %d of the other", a, b)
	}
	refuse("b", 100, many)
	if a, b := found("a", 2*many), found("b", 100+many); a != maxLatestRefusals/2 || b != maxLatestRefusals/2 {
		t.Errorf("%d and %d of two that are refused again and again", a, b)
	}
	for i := range 3 * maxLatestRefusals {
		refuse(fmt.Sprint("c", i, "-"), 0, 1)
	}
	if len(s.latest) != maxLatestRefusals || len(s.perAccount) != maxLatestRefusals {
		t.Errorf("%d of %d accounts", len(s.latest), len(s.perAccount))
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
		if have, err := parseSavings(formatSavings(all)); err != nil || !reflect.DeepEqual(have, all) {
			t.Errorf("%+v %v, want %+v", have, err, all)
		}
	}
	for _, s := range []string{"l4", "l4 x 1", "l4 1", "l4 1 y", ";"} {
		if _, err := parseSavings(s); err == nil {
			t.Errorf("%q is read", s)
		}
	}
}
