package policy_test

import (
	"encoding/json"
	"testing"

	"bardo.money/gateway/policy"
)

func TestParseCost(t *testing.T) {
	for _, r := range []struct {
		text string
		want policy.Pico
		ok   bool
	}{
		{"0.00042", 420_000_000, true},
		{"1.4e-05", 14_000_000, true},
		{"2E1", 20_000_000_000_000, true},
		{"0", 0, true},
		{"1e-13", 1, true},
		{"-1", 0, false},
		{"1e999", 0, false},
		{"1000001", 0, false},
		{"1/3", 0, false},
		{"", 0, false},
		{"x", 0, false},
	} {
		if got, ok := policy.ParseCost(r.text); got != r.want || ok != r.ok {
			t.Errorf("%q is %d, %v; want %d, %v", r.text, got, ok, r.want, r.ok)
		}
	}
}

// A cost is never negative, and never rounded down to zero.
func FuzzParseCost(f *testing.F) {
	for _, s := range []string{"0.00042", "1.4e-05", "1e-99", ".", "1e", "++1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, ok := policy.ParseCost(s); c < 0 || !ok && c != 0 {
			t.Errorf("%q is %d, %v", s, c, ok)
		}
	})
}

func TestACostIsReadAsItWasWritten(t *testing.T) {
	for _, c := range []policy.Pico{0, 1, 13_880_000_000, 1_000_000_000_000, 999_999_999_999_999} {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var again policy.Pico
		if err := json.Unmarshal(b, &again); err != nil || again != c {
			t.Errorf("%d became %s, then %d: %v", c, b, again, err)
		}
	}
	var c policy.Pico
	if err := json.Unmarshal([]byte(`"1"`), &c); err == nil {
		t.Error("a text is an amount")
	}
}
