package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/redistest"
)

// wire is a way to a Redis that can be cut. Connections that were made stay open, as behind a network that drops everything.
type wire struct {
	socket string
	to     *redistest.Server

	mu    sync.Mutex
	whole *sync.Cond
	cut   bool
}

func layWire(t *testing.T, to *redistest.Server) *wire {
	t.Helper()
	w := &wire{socket: filepath.Join(proctest.Dir(t), "wire.sock"), to: to}
	w.whole = sync.NewCond(&w.mu)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); w.reconnect(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(t, c) })
		}
	})
	return w
}

// carry connects one client with the Redis.
func (w *wire) carry(t *testing.T, c net.Conn) {
	t.Helper()
	defer func() { _ = c.Close() }()
	r, err := (&net.Dialer{}).DialContext(t.Context(), "unix", w.to.Socket())
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { w.copy(c, r); _ = c.Close() })
	w.copy(r, c)
	_ = r.Close()
	back.Wait()
}

// copy passes on what arrives, once the wire is whole.
func (w *wire) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		for w.cut {
			w.whole.Wait()
		}
		w.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) disconnect() { w.mu.Lock(); w.cut = true; w.mu.Unlock() }

func (w *wire) reconnect() { w.mu.Lock(); w.cut = false; w.whole.Broadcast(); w.mu.Unlock() }

// The partition's numbers: what a request uses, what a key may use in an hour, and how long what a gateway holds counts.
const (
	partUses      = 500
	partAllowance = 20_000
	partLease     = time.Second
	partGateways  = 3 // of which two run
)

// partition are two gateways that count together in a Redis, the second of them over a wire.
type partition struct {
	*testing.T
	server *redistest.Server
	wire   *wire
	gs     [2]*gateway.Gateway
	p      *fake.Server
	key    string
	served int64 // requests of the key
}

func newPartition(t *testing.T, rule string) *partition {
	t.Helper()
	q := &partition{T: t, server: redistest.Start(t), p: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}
	usage := &fake.Usage{Input: 400, Output: 100}
	q.p.Behave(fake.Behaviour{Usage: usage})
	q.p.BehaveFor("slow", fake.Behaviour{Usage: usage, HeaderDelay: 3 * partLease})
	q.wire = layWire(t, q.server)
	store := func(socket string) string {
		return fmt.Sprintf(`, limits: "redis+unix://%s", limits_timeout: 500ms, limits_lease: %s`, socket, partLease)
	}
	q.gs = sharersEach(t, fmt.Sprintf("limits: {rpm: 0, tokens_per_hour: %d%s}\n", partAllowance, rule), [2]string{store(q.server.Socket()), store(q.wire.socket)},
		gateway.Provider{ID: "own", Fake: q.p, Models: append(models("m", ""), models("slow", "")...)})
	q.key = q.gs[0].CreateKey(t, "--name", "k").Key
	return q
}

// send sends a request to a gateway, and counts it if it is served.
func (q *partition) send(gateway int) int {
	q.Helper()
	got := q.gs[gateway].Do(q, forms[int(q.served)%len(forms)].about("m", fmt.Sprint(q.served)).with(q.key, "X-Bardo-No-Cache: true"))
	switch got.Status {
	case http.StatusOK:
		q.served++
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		retryAfter(q.T, got, 3600)
		if n, err := strconv.Atoi(got.Header.Get("X-Remaining-Tokens")); err != nil || n < 0 || n > partAllowance {
			q.Errorf("%d says %q tokens are left", got.Status, got.Header.Get("X-Remaining-Tokens"))
		}
	default:
		q.Errorf("%d %s", got.Status, got.Body)
	}
	return got.Status
}

// counted waits until both gateways say that exactly what was served is used.
func (q *partition) counted() {
	q.Helper()
	want := max(partAllowance-q.served*partUses, 0)
	for i, g := range q.gs {
		var said int64
		eventually(q, fmt.Sprintf("gateway %d says that %d tokens are left", i, want), func() bool {
			var f funds
			got := g.Do(q, gateway.Call{Path: "/v1/balance", Key: q.key})
			if got.Status != http.StatusOK {
				return false
			}
			if got.JSON(q, &f); f.RemainingTokens == nil {
				return false
			}
			if now := *f.RemainingTokens; now != said {
				said = now
				q.Logf("gateway %d says %d", i, now)
			}
			return said == want
		})
	}
}

// known waits until gateways say of Redis that it is away, or is not.
func (q *partition) known(up string, gateways ...int) {
	q.Helper()
	for _, i := range gateways {
		eventually(q, "gateway "+strconv.Itoa(i)+" says "+up, func() bool {
			q.gs[i].Do(q, gateway.Call{Path: "/v1/models", Key: q.key})
			return strings.HasPrefix(limitsCheck(q.T, q.gs[i]), up)
		})
	}
}

// TestB05BudgetsAreCountedTogether: requests under way at two gateways at a time cannot spend more than their project may on a day, their owner or their key in a
// month; and while Redis is away such keys are refused.
func TestB05BudgetsAreCountedTogether(t *testing.T) {
	t.Parallel()
	server, p := redistest.Start(t), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 45}, HeaderDelay: 300 * time.Millisecond}) // 100 millionths
	store := fmt.Sprintf(`, limits: "redis+unix://%s", limits_timeout: 1s`, server.Socket())
	gs := sharersFrom(t, quick, store, gateway.Provider{ID: "own", Fake: p, Models: models("m", "")})
	gs[0].Bardo(t, "owners", "create", "acme")
	gs[0].Bardo(t, "owners", "create", "small", "--limit-usd-month", "0.001000")
	gs[0].Bardo(t, "projects", "create", "daily", "--owner", "acme", "--limit-usd-day", "0.001000")
	gs[0].Bardo(t, "projects", "create", "owned", "--owner", "small")
	for name, flags := range map[string][]string{
		"the day of a project": {"--project", "daily"}, "the month of an owner": {"--project", "owned"}, "the month of a key": {"--limit-usd-month", "0.001000"},
	} {
		t.Run(name, func(t *testing.T) {
			k := gs[0].CreateKey(t, append([]string{"--name", "k"}, flags...)...)
			var served atomic.Int64
			var all sync.WaitGroup
			for _, g := range gs {
				all.Go(func() { served.Add(int64(manyAtOnce(t, g, k.Key, 15))) })
			}
			all.Wait()
			if n := served.Load(); n < 1 || n > 10 {
				t.Errorf("%d requests of 100 were served from a budget of 1000", n)
			}
			for _, g := range gs {
				eventually(t, "the budget is used up at each", func() bool { return g.Do(t, both[1].with(k.Key)).Status == http.StatusTooManyRequests })
			}
		})
	}
	k := gs[1].CreateKey(t, "--name", "away", "--limit-usd-month", "100")
	if got := gs[1].Do(t, both[0].with(k.Key)); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	server.Kill()
	for range 3 {
		if got := gs[1].Do(t, both[0].with(k.Key)); got.Status != http.StatusServiceUnavailable {
			t.Errorf("without Redis: %d %s", got.Status, got.Body)
		}
	}
	for _, g := range gs {
		g.AssertSound(t)
	}
}

// TestX07APartitionThatOutlivesItsLease: a Redis that answers nobody, or not one of two gateways, for longer than what gateways hold there counts. Who is cut off
// refuses, or gives out its part and no more; afterwards everything that was served counts once, also what was under way meanwhile.
func TestX07APartitionThatOutlivesItsLease(t *testing.T) {
	t.Parallel()
	for _, rule := range []struct {
		name, config string
		refuses      int
		most         int64 // that a gateway serves alone, of 36 that are left
	}{
		{"refuse", "", http.StatusServiceUnavailable, 0},
		{"share", fmt.Sprintf(", when_away: share, gateways: %d", partGateways), http.StatusTooManyRequests, 12},
	} {
		for name, cut := range map[string]struct {
			begin, end func(*partition)
			away       []int
		}{
			"Redis hangs":        {func(q *partition) { q.server.Hang() }, func(q *partition) { q.server.Resume() }, []int{0, 1}},
			"one gateway is cut": {func(q *partition) { q.wire.disconnect() }, func(q *partition) { q.wire.reconnect() }, []int{1}},
		} {
			t.Run(rule.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				q := newPartition(t, rule.config)
				for i := range 4 {
					q.send(i % 2)
				}
				q.counted()
				before := len(q.p.Generations())
				var slow sync.WaitGroup
				slow.Go(func() {
					if got := q.gs[1].Do(t, forms[0].about("slow", "slow").with(q.key)); got.Status != http.StatusOK {
						t.Errorf("under way: %d %s", got.Status, got.Body)
					}
				})
				eventually(t, "one is under way", func() bool { return len(q.p.Generations()) > before })
				cut.begin(q)
				since := time.Now()
				q.known("false", cut.away...)
				q.alone(since, cut.away, rule.refuses, rule.most)
				cut.end(q)
				slow.Wait()
				q.served++
				q.known("true", 0, 1)
				q.counted()
				if q.send(0) != http.StatusOK || q.send(1) != http.StatusOK {
					t.Error("what is left is not given out")
				}
				q.counted()
			})
		}
	}
}

// alone sends requests to the gateways that are cut off, until the lease is over for a while, and to the other one.
func (q *partition) alone(since time.Time, away []int, refuses int, most int64) {
	q.Helper()
	served := make([]int64, len(q.gs))
	for refused := 0; refused < 2*len(away) || time.Since(since) < 4*partLease; {
		for _, i := range away {
			switch q.send(i) {
			case http.StatusOK:
				served[i]++
			case refuses:
				refused++
			default:
				q.Errorf("gateway %d does not refuse with %d", i, refuses)
				return
			}
			if served[i] > most {
				q.Errorf("gateway %d served %d alone, want at most %d", i, served[i], most)
				return
			}
		}
	}
	for _, i := range away {
		if most > 0 && served[i] == 0 {
			q.Errorf("gateway %d gave out nothing of its part", i)
		}
	}
	if len(away) == 1 && q.send(0) != http.StatusOK {
		q.Error("the gateway that is not cut off refuses")
	}
}
