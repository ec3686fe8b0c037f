package render

import (
	"strings"
	"testing"
	"time"
)

func TestProgressAtOnceAndThenEverySecond(t *testing.T) {
	t.Parallel()
	var p Progress
	if p.Started() {
		t.Error("it thinks before the first thought")
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, row := range []struct {
		after time.Duration
		bytes int
		due   bool
		line  string
	}{
		{0, 2, true, "thinking… 0s"},
		{400 * time.Millisecond, 38, false, ""},
		{time.Second, 0, true, "thinking… 1s, about 10 tokens"},
		{1900 * time.Millisecond, 400, false, ""},
		{65 * time.Second, 4, true, "thinking… 65s, about 111 tokens"},
	} {
		now := start.Add(row.after)
		due := p.Add(now, []byte(strings.Repeat("x", row.bytes)))
		if due != row.due {
			t.Errorf("after %v: due %v", row.after, due)
		}
		if due && p.Line(now) != row.line {
			t.Errorf("after %v: %q, want %q", row.after, p.Line(now), row.line)
		}
	}
	if !p.Started() {
		t.Error("it does not think after thoughts")
	}
}
