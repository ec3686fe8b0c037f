package wire

import "bardo.money/gateway/internal/jsonx"

// A provider's report of what an answer took is what is charged. An answer is not refused for a member that is there twice: it is paid for
// already, and its client waits. Of two numbers the one counts that costs more, so that no order of members makes an answer cheaper.

// Count reads a number of tokens, which some providers write as a float; 0 for anything that is none.
func Count(v jsonx.Value) int64 {
	const most = 1 << 53 // what a float64 holds exactly, and more tokens than there are
	if n, ok := v.Int(); ok {
		return max(0, min(n, most))
	}
	f, ok := v.Float()
	if !ok || !(f > 0) {
		return 0
	}
	return int64(min(f, most))
}

// Billed is the largest of the numbers that a report has at a path of members; 0 for none.
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

// Discount is the smallest of the numbers that a report has at a path of members, for what is cheaper than what it is a part of; 0 for none.
func Discount(report jsonx.Value, path ...string) (n int64) {
	found := false
	for key, m := range report.Members {
		if string(key) != path[0] {
			continue
		}
		one := Count(m)
		if len(path) > 1 {
			one = Discount(m, path[1:]...)
		}
		if !found || one < n {
			n, found = one, true
		}
	}
	return n
}

// LargerReport is, of two reports of one answer that stand in one object, the one with more in it; the one that is there, if the other is not.
func LargerReport(a, b jsonx.Value) jsonx.Value {
	if a.Kind() != jsonx.Object || b.Kind() == jsonx.Object && sum(b) > sum(a) {
		return b
	}
	return a
}

// sum adds the numbers of a report's own members.
func sum(report jsonx.Value) (n int64) {
	for _, m := range report.Members {
		n += min(Count(m), 1<<40) // so that it cannot overflow
	}
	return n
}
