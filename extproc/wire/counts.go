package wire

import "bardo.money/gateway/internal/jsonx"

// The provider's usage report is what is charged. An answer with a duplicate member is not refused: it is paid for already, and its client
// waits. Of duplicate numbers the one that costs more counts, so that the order of members cannot make an answer cheaper.

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

// Billed is the largest of the numbers that a report has under a name; 0 if there is none.
func Billed(report jsonx.Value, name string) (n int64) {
	for key, m := range report.Members {
		if string(key) == name {
			n = max(n, Count(m))
		}
	}
	return n
}

// Least is the smallest of the numbers that were added, for tokens that are cheaper than the rest; 0 if there is none.
type Least struct {
	N   int64
	any bool
}

// Add adds a number.
func (l *Least) Add(n int64) {
	if !l.any || n < l.N {
		l.N, l.any = n, true
	}
}

// LargerReport returns the larger of two usage reports for one answer, by the sum of their numbers; the other one if one is not an object.
func LargerReport(a, b jsonx.Value) jsonx.Value {
	if a.Kind() != jsonx.Object || b.Kind() == jsonx.Object && sizeOf(b).sum > sizeOf(a).sum {
		return b
	}
	return a
}

// Size is how large a report is, where it is read in one pass: the sum of its numbers. The zero value is that of no report.
type Size struct {
	object bool
	sum    int64
}

// NewSize is the size of a report before its numbers are added.
func NewSize(report jsonx.Value) Size { return Size{object: report.Kind() == jsonx.Object} }

// Add adds the number of a member.
func (s *Size) Add(n int64) { s.sum += min(n, 1<<40) } // so that the sum cannot overflow

// Exceeds reports whether LargerReport would take the report of this size, which comes after one of the other.
func (s *Size) Exceeds(other *Size) bool { return !other.object || s.object && s.sum > other.sum }

func sizeOf(report jsonx.Value) Size {
	s := NewSize(report)
	for _, m := range report.Members {
		s.Add(Count(m))
	}
	return s
}
