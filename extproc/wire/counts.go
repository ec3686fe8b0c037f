package wire

import "bardo.money/gateway/internal/jsonx"

// Charges are based on the provider's usage report. An answer with a duplicate member is not refused, because it is already paid for. Of
// duplicate numbers the one with the higher cost counts, so that the order of members cannot reduce the charge.

// Count reads a number of tokens, which some providers write as a float; 0 for any other value.
func Count(v jsonx.Value) int64 {
	const limit = 1 << 53 // the largest integer that a float64 holds exactly
	if n, ok := v.Int(); ok {
		return max(0, min(n, limit))
	}
	f, ok := v.Float()
	if !ok || !(f > 0) {
		return 0
	}
	return int64(min(f, limit))
}

// Billed returns the largest of the numbers that a report has under a name; 0 if there is none.
func Billed(report jsonx.Value, name string) (n int64) {
	for key, m := range report.Members {
		if string(key) == name {
			n = max(n, Count(m))
		}
	}
	return n
}

// Minimum is the minimum of the added numbers, for tokens that are cheaper than the rest; 0 if there is none.
type Minimum struct {
	N   int64
	any bool
}

// Add adds a number.
func (l *Minimum) Add(n int64) {
	if !l.any || n < l.N {
		l.N, l.any = n, true
	}
}

// LargerReport returns the larger of two usage reports for one answer, by the sum of their numbers. A report that is not an object is
// smaller.
func LargerReport(a, b jsonx.Value) jsonx.Value {
	if a.Kind() != jsonx.Object || b.Kind() == jsonx.Object && sizeOf(b).sum > sizeOf(a).sum {
		return b
	}
	return a
}

// Size is the sum of a report's numbers, for reports that are read in one pass. The zero value is the size of no report.
type Size struct {
	object bool
	sum    int64
}

// NewSize returns the size of a report before its numbers are added.
func NewSize(report jsonx.Value) Size { return Size{object: report.Kind() == jsonx.Object} }

// Add adds the number of a member.
func (s *Size) Add(n int64) { s.sum += min(n, 1<<40) } // so that the sum cannot overflow

// Exceeds reports whether LargerReport would select the report of this size over an earlier one of the other size.
func (s *Size) Exceeds(other *Size) bool { return !other.object || s.object && s.sum > other.sum }

func sizeOf(report jsonx.Value) Size {
	s := NewSize(report)
	for _, m := range report.Members {
		s.Add(Count(m))
	}
	return s
}
