package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/redistest"
)

// limitSharers are two gateways that count together in a Redis, whose steps may take as long as a busy machine needs.
func limitSharers(t *testing.T, server *redistest.Server, limits string) (gs [2]*gateway.Gateway, p *fake.Server) {
	t.Helper()
	p = fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 400, Output: 100}})
	store := fmt.Sprintf(`, limits: "redis+unix://%s", limits_timeout: 1s`, server.Socket())
	return sharersFrom(t, limits, store, gateway.Provider{ID: "own", Fake: p, Models: models("m", "")}), p
}

// limitsCheck is what a gateway's /readyz?verbose says of its store of limits.
func limitsCheck(t *testing.T, g *gateway.Gateway) string {
	t.Helper()
	_, body := bodyOf(t, g.Admin+"/readyz?verbose")
	_, after, _ := strings.Cut(body, `{"name":"shared limits","ok":`)
	return after
}

// TestX07TwoGatewaysCountTogether: requests, tokens and concurrent requests, in every form.
func TestX07TwoGatewaysCountTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	gs, p := limitSharers(t, server, "limits: {tokens_per_hour: 3000, max_concurrent: 2}\n")

	k, since := gs[0].CreateKey(t, "--name", "rate", "--rpm", "6"), time.Now()
	n := 0
	for i := range 14 {
		got := gs[i%2].Do(t, forms[i%len(forms)].about("m", fmt.Sprint(i)).with(k.Key))
		if got.Status == http.StatusOK {
			n++
		} else if got.Status != http.StatusTooManyRequests {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	if most := 6 + int(time.Since(since)/(10*time.Second)); n < 6 || n > most {
		t.Errorf("of 14 requests at two gateways %d were served, want 6 to %d: 6 a minute", n, most)
	}

	k = gs[0].CreateKey(t, "--name", "tokens")
	for i := range 6 {
		if got := gs[i%2].Do(t, forms[0].about("m", fmt.Sprint("tokens ", i)).with(k.Key)); got.Status != http.StatusOK {
			t.Fatalf("request %d: %d %s", i, got.Status, got.Body)
		}
	}
	for _, g := range gs {
		eventually(t, "the allowance is used up", func() bool {
			got := g.Do(t, forms[0].about("m", "one more").with(k.Key))
			return got.Status == http.StatusTooManyRequests && strings.Contains(got.Body, "token_allowance_exhausted")
		})
	}

	const takes = 2 * time.Second
	p.Behave(fake.Behaviour{HeaderDelay: takes, Usage: &fake.Usage{Input: 1, Output: 1}})
	k, since = gs[0].CreateKey(t, "--name", "concurrency"), time.Now()
	var served atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if got := gs[i%2].Do(t, forms[0].about("m", fmt.Sprint("at once ", i)).with(k.Key)); got.Status == http.StatusOK {
				served.Add(1)
			}
		})
	}
	all.Wait()
	if n, most := served.Load(), 2*int64(time.Since(since)/takes); n < 1 || n > most {
		t.Errorf("%d of 8 concurrent requests at two gateways were served, want at most %d: two at a time", n, most)
	}
	if limitsCheck(t, gs[0])[:4] != "true" {
		t.Errorf("/readyz?verbose says %q", limitsCheck(t, gs[0]))
	}
}

// TestX07LimitsWhileRedisIsAway: refused, or by each gateway's part; and together again afterwards.
func TestX07LimitsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule    string
		status, least int // of 6 requests at one of two gateways
		check         string
	}{
		{"refuse", "", http.StatusServiceUnavailable, 0, "refuses callers that have a limit"},
		{"share", ", when_away: share, gateways: 2", http.StatusTooManyRequests, 3, "gives out its part of each limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			gs, _ := limitSharers(t, server, "limits: {rpm: 0"+c.rule+"}\n")
			k := gs[0].CreateKey(t, "--name", "k", "--rpm", "6")
			free := gs[0].CreateKey(t, "--name", "free")
			server.Kill()
			eventually(t, "the gateway knows it", func() bool {
				gs[0].Do(t, gateway.Call{Path: "/v1/models", Key: gs[1].CreateKey(t, "--name", "other", "--rpm", "60").Key})
				return strings.HasPrefix(limitsCheck(t, gs[0]), "false") && strings.Contains(limitsCheck(t, gs[0]), c.check)
			})
			n, since := 0, time.Now()
			for i := range 6 {
				switch got := gs[0].Do(t, forms[0].about("m", fmt.Sprint(i)).with(k.Key)); got.Status {
				case http.StatusOK:
					n++
				case c.status:
					retryAfter(t, got, 60)
				default:
					t.Errorf("%d %s", got.Status, got.Body)
				}
			}
			most := c.least
			if most > 0 { // three a minute
				most += int(time.Since(since) / (20 * time.Second))
			}
			if n < c.least || n > most {
				t.Errorf("%d of 6 requests were served while Redis was away, want %d", n, c.least)
			}
			if got := gs[0].Do(t, forms[0].about("m", "free").with(free.Key)); got.Status != http.StatusOK {
				t.Errorf("a caller without a limit: %d %s", got.Status, got.Body)
			}
			server.Run(t)
			eventually(t, "the gateway counts with others again", func() bool { return strings.HasPrefix(limitsCheck(t, gs[0]), "true") })
			if got := gs[0].Do(t, forms[0].about("m", "again").with(gs[0].CreateKey(t, "--name", "new", "--rpm", "1").Key)); got.Status != http.StatusOK {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
}
