package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestR28AKeySeesItsDreamsInItsEvents: that a request waits, that a batch has it, and that its answer is there to be read. Another key sees nothing of it, and no event has
// what was said.
func TestR28AKeySeesItsDreamsInItsEvents(t *testing.T) {
	t.Parallel()
	l := runDreams(t, quickBatches)
	key, other := l.CreateKey(t, "--name", "k", "--balance-usd", "5"), l.CreateKey(t, "--name", "other", "--balance-usd", "5")
	for _, a := range dreamAsks {
		mine, foreign := readEvents(t, l.Gateway, key.Key, ""), readEvents(t, l.Gateway, other.Key, "")
		a.say = "PLANTED"
		r := l.dream(t, a, key.Key, "24h", "X-Bardo-Subsystem: dream")
		for _, state := range []string{"accepted", "batched", "answered"} {
			e := await(t, mine, "inference:deferred_"+state, `"request_id":"`+r.ID+`"`, `"subsystem":"dream"`, `"state":"`+state+`"`)
			if strings.Contains(e.Data, "PLANTED") {
				t.Errorf("%s: %s", state, e.Data)
			}
		}
		if got := l.look(t, r, key.Key); got.Status != http.StatusOK { // at once: the event says that it is there
			t.Errorf("%s: after the event: %d %s", a.dialect, got.Status, got.Body)
		}
		next := l.dream(t, a, other.Key, "24h", "X-Bardo-Subsystem: dream")
		if e := await(t, foreign, "inference:deferred_accepted"); !strings.Contains(e.Data, next.ID) {
			t.Errorf("%s: another key sees %s", a.dialect, e.Data)
		}
	}
	l.AssertSound(t)
}
