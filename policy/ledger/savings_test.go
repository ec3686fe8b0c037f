package ledger

import (
	"fmt"
	"reflect"
	"testing"

	"bardo.money/gateway/policy"
)

// TestSavingsAreSummedByLayer: of metered, prepaid and anonymous requests, whether the store has them or not; the sum of the layers is that of usage.
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
			{Filter{}, []SavingRow{{Layer: "l4", Requests: 4, Tokens: 307, Amount: 125}, {Layer: "l3", Requests: 1, Tokens: 900, Amount: 70}, {Layer: "l1", Requests: 4, Tokens: 0, Amount: -12}}},
			{Filter{Account: "k"}, []SavingRow{{Layer: "l4", Requests: 3, Tokens: 300, Amount: 120}, {Layer: "l1", Requests: 3, Tokens: 0, Amount: -9}}},
			{Filter{Since: monday.AddDate(0, 0, 1)}, []SavingRow{{Layer: "l4", Requests: 1, Tokens: 7, Amount: 5}, {Layer: "l1", Requests: 1, Tokens: 0, Amount: -3}}},
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
