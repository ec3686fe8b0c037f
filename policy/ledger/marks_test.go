package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
)

// TestX10RequestsAreReadOnByTheirMarks: in order, each once, in any batches; from the first one again if the mark's request was removed or its row number was
// reassigned, so that none is skipped.
func TestX10RequestsAreReadOnByTheirMarks(t *testing.T) {
	l := gateway(t, t.TempDir()+"/l.db")
	ids := func(m Mark, most int) (got string, next Mark) {
		t.Helper()
		last, err := l.LastMark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list, next, err := l.RequestsAfter(t.Context(), m, last, most)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for i := range list {
			all = append(all, list[i].RequestID)
		}
		return strings.Join(all, " "), next
	}
	if got, next := ids(Mark{}, 9); got != "" || next != (Mark{}) {
		t.Errorf("an empty store: %q %v", got, next)
	}
	record := func(from, to int) {
		t.Helper()
		for i := from; i <= to; i++ {
			if err := l.Record(Charge{RequestID: fmt.Sprint("r", i), Account: "a", Amount: 1, Status: "ok", Model: "m", Provider: "p", At: time.Now()}); err != nil {
				t.Fatal(err)
			}
			polltest.Until(t, "the request", func() bool { got, _ := ids(Mark{}, 99); return strings.HasSuffix(" "+got, fmt.Sprint(" r", i)) })
		}
	}
	record(1, 5)
	var m Mark
	for _, want := range []string{"r1 r2", "r3 r4", "r5", ""} {
		var got string
		if got, m = ids(m, 2); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	record(6, 6)
	if got, next := ids(m, 2); got != "r6" || next.ID != "r6" {
		t.Errorf("%q %v", got, next)
	}
	earlier, err := l.LastMark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	record(7, 7)
	if list, _, err := l.RequestsAfter(t.Context(), m, earlier, 9); err != nil || len(list) != 1 || list[0].RequestID != "r6" {
		t.Errorf("beyond the last mark: %v %v", list, err)
	}
	for about, wrong := range map[string]Mark{"numbered anew": {Row: m.Row, ID: "other"}, "pruned": {Row: 1 << 40, ID: "r5"}} {
		if got, _ := ids(wrong, 9); got != "r1 r2 r3 r4 r5 r6 r7" {
			t.Errorf("%s: %q", about, got)
		}
	}
}
