package catalog

import (
	"testing"

	"bardo.money/gateway/policy"
)

func TestPricesAreExact(t *testing.T) {
	for _, row := range []struct {
		text  string
		power int64
		want  policy.Price // -1: none
	}{
		{"0.0000025", perToken, 2_500_000},
		{"2.5e-06", perToken, 2_500_000},
		{"2.5E-6", perToken, 2_500_000},
		{"25e-7", perToken, 2_500_000},
		{"0.000000075", perToken, 75_000},
		{"0.00000000000051", perToken, 1},
		{"0.00000000000049", perToken, 0},
		{"0", perToken, 0},
		{"0.01", perToken, 10_000_000_000},
		{"0.011", perToken, -1},
		{"2.5", perMillion, 2_500_000},
		{"0.30000000000000004", perMillion, 300_000},
		{"10000", perMillion, 10_000_000_000},
		{"10000.000001", perMillion, -1},
		{"+1", perMillion, 1_000_000},
		{".5", perMillion, 500_000},
		{"5.", perMillion, 5_000_000},
		{"-1", perMillion, -1},
		{"", perMillion, -1},
		{".", perMillion, -1},
		{"1e", perMillion, -1},
		{"1e--5", perMillion, -1},
		{"1e+-5", perMillion, -1},
		{"1e999", perMillion, -1},
		{"1.2.3", perMillion, -1},
		{"0x10", perMillion, -1},
		{"null", perMillion, -1},
		{"Infinity", perMillion, -1},
		{"0.0000000000000000000000000000000000000000000000000001", perMillion, -1},
	} {
		got := price(row.text, row.power)
		if (got == nil) != (row.want < 0) || got != nil && *got != row.want {
			t.Errorf("%q: got %v, want %d", row.text, got, row.want)
		}
	}
}
