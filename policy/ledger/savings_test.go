package ledger

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"bardo.money/gateway/policy"
)

// TestSavingsAreSummedByLayer: of metered, prepaid and anonymous requests, whether the store has them or not, and the sum over the layers is that of usage.
func TestSavingsAreSummedByLayer(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	withKey(t, l, "k", 50*usd)
	if err := l.CreateKey(t.Context(), KeyRow{ID: "m"}, 0); err != nil {
		t.Fatal(err)
	}
	saved := func(tokens int64, amount policy.Micro) []policy.Saving {
		return []policy.Saving{{Layer: "l4", Tokens: tokens, Amount: amount}, {Layer: "l1", Amount: -3}}
	}
	for i := range 3 {
		c := Charge{Amount: usd, At: monday, Model: "a", Savings: saved(100, 40)}
		if _, err := l.Capture(t.Context(), reserve(t, l, "k", fmt.Sprint("r", i), usd), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []Charge{
		{RequestID: "m1", Account: "m", At: monday.AddDate(0, 0, 1), Model: "a", Savings: saved(7, 5)},
		{RequestID: "m1", Account: "m", At: monday.AddDate(0, 0, 1), Model: "a", Savings: saved(7, 5)}, // again
		{RequestID: "m2", Account: "m", At: monday, Model: "b"},
		{RequestID: "n1", At: monday, Model: "b", Savings: []policy.Saving{{Layer: "l3", Tokens: 900, Amount: 70}}},
	} {
		if err := l.Record(c); err != nil {
			t.Fatal(err)
		}
	}
	check := func(l *Ledger) {
		t.Helper()
		for _, row := range []struct {
			f    Filter
			want []SavingRow
		}{
			{Filter{}, []SavingRow{{"l4", 4, 307, 125}, {"l3", 1, 900, 70}, {"l1", 4, 0, -12}}},
			{Filter{Account: "k"}, []SavingRow{{"l4", 3, 300, 120}, {"l1", 3, 0, -9}}},
			{Filter{Since: monday.AddDate(0, 0, 1)}, []SavingRow{{"l4", 1, 7, 5}, {"l1", 1, 0, -3}}},
			{Filter{Account: "m", Until: monday}, nil},
		} {
			have, err := l.Savings(t.Context(), row.f)
			if err != nil || !reflect.DeepEqual(have, row.want) {
				t.Errorf("%+v: %+v %v, want %+v", row.f, have, err, row.want)
			}
		}
		usage, err := l.Usage(t.Context(), Filter{}, ByModel)
		if err != nil || len(usage) != 2 || usage[0].Saved != 113 || usage[1].Saved != 70 {
			t.Errorf("%+v %v", usage, err)
		}
	}
	eventually(t, "the repeated record is known as one", func() bool {
		rows, err := l.Savings(t.Context(), Filter{Account: "m"})
		return err == nil && len(rows) == 2 && rows[0].Requests == 1
	})
	check(l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	other := tool(t, path)
	check(other)
	r, err := other.Request(t.Context(), "k", "r1")
	if err != nil || !reflect.DeepEqual(r.Savings, saved(100, 40)) {
		t.Errorf("%+v %v", r.Savings, err)
	}
	wantClean(t, other)
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
