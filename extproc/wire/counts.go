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

// Billed is the largest of the numbers that a report has at a path of members; 0 if there is none.
func Billed(report jsonx.Value, path ...string) (n int64) {
	for key, m := range report.Members {
		switch {
		case string(key) != path[0]:
		case len(path) > 1:
			n = max(n, Billed(m, path[1:]...))
		default:
			n = max(n, Count(m))
		}
	}
	return n
}

// Discount is the smallest of the numbers that a report has at a path of members, for tokens that are cheaper than the rest; 0 if there is
// none.
func Discount(report jsonx.Value, path ...string) int64 {
	var least Least
	for key, m := range report.Members {
		switch {
		case string(key) != path[0]:
		case len(path) > 1:
			least.Add(Discount(m, path[1:]...))
		default:
			least.Add(Count(m))
		}
	}
	return least.N
}

// Least is the smallest of the numbers that were added; 0 if there is none.
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
	if a.Kind() != jsonx.Object || b.Kind() == jsonx.Object && sum(b) > sum(a) {
		return b
	}
	return a
}

// sum adds the numbers of a report's own members.
func sum(report jsonx.Value) (n int64) {
	for _, m := range report.Members {
		n += min(Count(m), 1<<40) // so that the sum cannot overflow
	}
	return n
}
