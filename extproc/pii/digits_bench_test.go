package pii_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/pii"
)

// digitLines returns at least n bytes of lines of digits in many formats.
func digitLines(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < n {
		switch r.IntN(6) {
		case 0:
			fmt.Fprintf(&b, "%d,%d,%d\n", r.IntN(1e6), r.IntN(1e9), r.IntN(100))
		case 1:
			fmt.Fprintf(&b, "%d %d %d %d\n", r.IntN(1000), r.IntN(1000), r.IntN(10000), r.IntN(1000))
		case 2:
			fmt.Fprintf(&b, "%03d-%04d-%d\n", r.IntN(1000), r.IntN(1000), r.IntN(10000))
		case 3:
			fmt.Fprintf(&b, "(%03d) %03d-%04d x\n", r.IntN(1000), r.IntN(1000), r.IntN(10000))
		case 4:
			fmt.Fprintf(&b, "+%d %d %d\n", r.IntN(100), r.IntN(10000), r.IntN(1000000))
		case 5:
			fmt.Fprintf(&b, "%d\n", r.Int64N(1e17))
		}
	}
	return b.String()
}

// BenchmarkDigits scans texts of groups of digits, which look like phone numbers.
func BenchmarkDigits(b *testing.B) {
	d := pii.Detectors{Types: pii.Builtin, Regions: []string{"DE", "FR"}}
	for _, line := range []string{"", "123 456 789 012 345\n", "+49 30 1234 5678 90\n", "415-555-0132 ", "0049 30 123456 ", "(212) 736-5000 ", "1 ", "030 1234567, "} {
		text, name := strings.Repeat(line, 1<<20/max(len(line), 1)), strings.TrimSpace(line)
		if line == "" {
			text, name = digitLines(1<<20), "mixed"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Find(b.Context(), text, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
