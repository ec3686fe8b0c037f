package envoy

import (
	"testing"
	"time"
)

// TestStartsGiveUpOnlyWhereNoEnvoyWasReady: the run time does not count, except if it exceeds a minute.
func TestStartsGiveUpOnlyWhereNoEnvoyWasReady(t *testing.T) {
	type end struct {
		ran   time.Duration
		ready bool
	}
	const quick, slow, long = time.Millisecond, 20 * time.Second, 2 * time.Minute
	unready := func(ran ...time.Duration) (ends []end) {
		for _, r := range ran {
			ends = append(ends, end{ran: r})
		}
		return ends
	}
	for _, row := range []struct {
		about string
		ends  []end
		again bool // after the last
	}{
		{"five that end immediately", unready(quick, quick, quick, quick, quick), false},
		{"four", unready(quick, quick, quick, quick), true},
		{"the first one slow to end", unready(slow, quick, quick, quick, quick), false},
		{"one in the middle slow to end", unready(quick, quick, slow, quick, quick), false},
		{"all slow to end", unready(slow, slow, slow, slow, slow), false},
		{"one was ready", append(unready(quick), end{quick, true}, end{quick, true}, end{quick, true}, end{quick, true}, end{quick, true}), true},
		{"one ran for minutes without a configuration", unready(long, quick, quick, quick, quick, quick), true},
	} {
		var s starts
		for i, e := range row.ends {
			if _, again := s.ended(e.ran, e.ready); again != (row.again || i < len(row.ends)-1) {
				t.Errorf("%s: after end %d: started again: %v", row.about, i+1, again)
			}
		}
	}
}

func TestStartsPauseLongerEachTime(t *testing.T) {
	var s starts
	for _, row := range []struct{ ran, pause time.Duration }{
		{0, 100 * time.Millisecond},
		{0, 200 * time.Millisecond},
		{0, 400 * time.Millisecond},
		{2 * time.Minute, 100 * time.Millisecond},
		{30 * time.Second, 200 * time.Millisecond},
	} {
		if pause, _ := s.ended(row.ran, true); pause != row.pause {
			t.Errorf("after %s a pause of %s, want %s", row.ran, pause, row.pause)
		}
	}
	for range 20 {
		s.ended(0, true)
	}
	if pause, _ := s.ended(0, true); pause != longPause {
		t.Errorf("at last a pause of %s", pause)
	}
}
