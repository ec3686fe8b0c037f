package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
)

// TestR29AnUnverifiedAnswerIsNotStored: where the second model gave nothing, or the first, the answer serves its own request alone; the next
// one is verified, and that is stored.
func TestR29AnUnverifiedAnswerIsNotStored(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	bad := fake.Behaviour{Status: http.StatusBadRequest}
	n := 0
	for _, row := range []struct {
		about         string
		first, second fake.Behaviour
		given         string
	}{
		{"the second model refuses", fake.Behaviour{JSON: lax}, bad, "lead"},
		{"the second model gives nothing good", fake.Behaviour{JSON: lax}, fake.Behaviour{Text: "Who knows?"}, "lead"},
		{"the first model gives nothing good", fake.Behaviour{Text: "Who knows?"}, fake.Behaviour{JSON: strict}, "other"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", row.about, stream), func(t *testing.T) {
				n++
				c := shaper("openai").call("claude-opus-4-6", stream, fmt.Sprintf("May it? %d", n), "",
					"X-Bardo-Subsystem: risk", "X-Bardo-Cache: force", "X-Bardo-Verify: true", "X-Bardo-Replay: fast")
				lead.Behave(row.first)
				other.Behave(row.second)
				got := g.Do(t, c)
				if word := wordOf(t, got, "X-Bardo-Verified", "verified"); got.Status != http.StatusOK || !strings.HasPrefix(word, "skipped") || got.Header.Get("X-Bardo-Provider") != row.given {
					t.Fatalf("%d by %s, verified %q: %s", got.Status, got.Header.Get("X-Bardo-Provider"), word, got.Body)
				}
				says(lead, lax, 10, 10)
				says(other, strict, 10, 10)
				for _, want := range []string{"miss", "hash"} {
					got = g.Do(t, c)
					word := wordOf(t, got, "X-Bardo-Verified", "verified")
					if got.Header.Get("X-Bardo-Cache") != want || !strings.HasPrefix(word, "disagreed") || shaper("openai").text(t, got, stream) != strict {
						t.Errorf("cache %q, want %q; verified %q", got.Header.Get("X-Bardo-Cache"), want, word)
					}
				}
			})
		}
	}
	g.AssertSound(t)
}

// TestR23AnAnswerThatWantedABetterOneIsNotStored: while tier T2 fails, the answer of T1 serves its own request alone.
func TestR23AnAnswerThatWantedABetterOneIsNotStored(t *testing.T) {
	t.Parallel()
	g, swift, deep, deeper := tiered(t, "")
	says(swift, decision("observe", 0.9, true), 10, 10)
	for _, stream := range []bool{false, true} {
		for _, s := range []*fake.Server{deep, deeper} {
			s.Behave(fake.Behaviour{Status: http.StatusBadRequest})
		}
		c := shaper("openai").call("auto", stream, fmt.Sprintf("What now? %v", stream), "",
			"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Cache: force", "X-Bardo-Escalate: auto", "X-Bardo-Replay: fast")
		if got := g.Do(t, c); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "swift" {
			t.Fatalf("stream=%v: %d by %s", stream, got.Status, got.Header.Get("X-Bardo-Provider"))
		}
		says(deep, decision("hedge", 0.9, false), 10, 10)
		says(deeper, decision("hedge", 0.9, false), 10, 10)
		for _, want := range []string{"miss", "hash"} {
			got := g.Do(t, c)
			if got.Header.Get("X-Bardo-Cache") != want || got.Header.Get("X-Bardo-Provider") != "deep" || wordOf(t, got, "X-Bardo-Escalated", "escalated") == "" {
				t.Errorf("stream=%v: cache %q, want %q, by %s", stream, got.Header.Get("X-Bardo-Cache"), want, got.Header.Get("X-Bardo-Provider"))
			}
		}
	}
	g.AssertSound(t)
}
