// Package racetest reduces the work of tests under the race detector, which makes code that works in one goroutine five to fifteen times slower and
// finds nothing in it. Only tests import it.
package racetest

// Less returns n, or an eighth of it with the race detector, at least 1.
func Less(n int) int {
	if on {
		return max(1, n/8)
	}
	return n
}
