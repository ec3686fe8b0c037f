package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
)

// TestALargeRequestIsHeldOnce: while a provider thinks about it, the program holds a request of 1 MB in one buffer, and little besides
// (docs/performance.md).
func TestALargeRequestIsHeldOnce(t *testing.T) {
	// Not in parallel: it measures, and fails on a machine that other tests keep busy.
	const requests, size, most = 16, 1_000_000, 1792 << 10 // a buffer of 1 MiB, and the last piece that came
	g, p := bothWays(t, fake.Behaviour{Tokens: 3})
	a := ask{dialect: fake.OpenAI, model: "alone", say: strings.Repeat("x ", size/2)}
	if got := g.Do(t, a.call()); got.Status != 200 {
		t.Fatalf("%d %.300s", got.Status, got.Body)
	}
	base := live(t, g)
	p.Behave(fake.Behaviour{HeaderDelay: time.Hour}) // until its caller disconnects
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	for range requests {
		group.Go(func() {
			if res, err := g.Open(ctx, a.call()); err == nil {
				_ = res.Body.Close()
				t.Errorf("an answer with status %d", res.StatusCode)
			}
		})
	}
	if _, err := p.WaitGenerations(ctx, requests+1); err != nil {
		t.Fatal(err)
	}
	var each int64
	eventually(t, fmt.Sprintf("at most %d bytes held for a request of %d", most, size), func() bool { // what came last is let go of a moment later
		each = (live(t, g) - base) / requests
		return each <= most
	})
	t.Logf("each request holds %d KiB", each>>10)
	cancel()
}
