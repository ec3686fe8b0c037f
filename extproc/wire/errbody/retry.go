package errbody

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"bardo.money/gateway/internal/header"
)

// maxRetryAfter is the maximum retry delay in seconds.
const maxRetryAfter = 24 * 60 * 60

// retryAfter returns the retry delay in seconds that the provider requests, rounded up; 0 if it does not.
func retryAfter(h header.List) int {
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil && ms > 0 {
		return clamp(ms / 1000)
	}
	after := h.Get("retry-after")
	if n := seconds(after); n > 0 {
		return n
	}
	at, err := http.ParseTime(after)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("date")) // the provider's clock, in case the local one is wrong
	if err != nil {
		now = time.Now()
	}
	return clamp(at.Sub(now).Seconds())
}

// seconds parses a number of seconds, rounded up; 0 if it is not one.
func seconds(s string) int {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return clamp(f)
}

func clamp(seconds float64) int {
	if !(seconds > 0) { // also NaN
		return 0
	}
	return int(math.Ceil(min(seconds, maxRetryAfter)))
}
