package injection_test

import (
	"fmt"
	"strings"
	"testing"

	layer "bardo.money/gateway/extproc/layers/injection"
	"bardo.money/gateway/internal/fault"
)

// rows are results of a tool, of n bytes in total, each of which has a window that the classifier has to score.
func rows(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","tool_calls":[{"id":"c%[1]d","type":"function","function":{"name":"get","arguments":"{}"}}]},`+
			`{"role":"tool","tool_call_id":"c%[1]d","content":"row %[1]d: %[2]s%[3]s"}`, i, doubtful, strings.Repeat(" The parcel left the depot in the morning.", 150))
	}
	return b.String()
}

// TestF02EightMegabytesCostABoundedNumberOfScores: the rest is reported as not judged, or the request is refused, as configured.
func TestF02EightMegabytesCostABoundedNumberOfScores(t *testing.T) {
	body := rows(8 << 20)
	for _, row := range []struct {
		policies layer.Policies
		refuse   bool
	}{{flagAll, true}, {blockAll, true}, {blockAll, false}} {
		c := &classifier{score: 0.1}
		l, _ := newLayer(row.policies, c)
		l.Refuse = row.refuse
		x := result(t, fine, body)
		err := run(t, l, x)
		if len(c.asked) > 64 {
			t.Errorf("%+v: %d windows", row, len(c.asked))
		}
		if row.policies == blockAll && row.refuse {
			if f := fault.From(err); f.Kind != fault.Overloaded || f.RetryAfter == 0 {
				t.Errorf("%+v: %v", row, err)
			}
			continue
		}
		if row.policies == blockAll && (err != nil || !strings.Contains(noteIn(x), "unscored=")) {
			t.Errorf("%+v: %v, %q", row, err, noteIn(x))
		}
	}
}

// TestF02WhatIsJudgedInPartIsSaid: the middle of a text of 8 MB is not judged, which the note reports.
func TestF02WhatIsJudgedInPartIsSaid(t *testing.T) {
	long := strings.Repeat("The parcel left the depot in the morning, and all is well. ", (8<<20)/58)
	for name, p := range map[string]layer.Policies{"beside": flagAll, "before": blockAll} {
		l, _ := newLayer(p, &classifier{score: 0.1})
		x := result(t, long)
		if err := run(t, l, x); err != nil || noteIn(x) != "partly=1" {
			t.Errorf("%s: %v, %q", name, err, noteIn(x))
		}
	}
}
