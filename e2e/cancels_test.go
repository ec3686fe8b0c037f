package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// How many clients leave: in every run of the tests, and in a soak (make soak).
const (
	leavers     = 250
	soakLeavers = 1000
)

// disconnector is a client that leaves: after a time, wherever its request is then; or once it has read so much of the answer.
type disconnector struct {
	ask
	say   string // unique, so that the provider's request can be found
	tls   bool   // over HTTP/2: the stream is reset, the connection stays
	after time.Duration
	until string // not "": once this was read, whatever the time

	// What it saw.
	id      string // the answer's X-Request-Id; "": it left before the head
	reached bool   // until was read
	whole   bool   // the answer was over before it left
	left    time.Time
}

// disconnectors is a gateway whose models are answered in different times by providers of both dialects, on either path.
type disconnectors struct {
	*testing.T
	g         *gateway.Gateway
	key       gateway.NewKey
	providers []*fake.Server
	asks      []ask
	n         int
	all       []*disconnector
}

// The answers, by the end of a model's name. A long one ends because its caller left, or not at all while a test may wait.
var paces = map[string]fake.Behaviour{
	"long":  {HeaderDelay: 5 * time.Millisecond, FirstToken: 20 * time.Millisecond, Tokens: 20_000, Gap: 5 * time.Millisecond},
	"short": {HeaderDelay: 5 * time.Millisecond, FirstToken: 10 * time.Millisecond, Tokens: 6, Gap: 8 * time.Millisecond},
	"late":  {FirstToken: 2 * time.Minute},
	"soon":  {FirstToken: 40 * time.Millisecond},
}

func newDisconnectors(t *testing.T) *disconnectors {
	t.Helper()
	q := &disconnectors{T: t}
	o := gateway.Options{Config: patient}
	spare := gateway.Provider{ID: "spare", Fake: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "spare"})}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		p := fake.Start(t, fake.Config{Dialect: d, Name: "the-" + string(d)})
		q.providers = append(q.providers, p)
		row := gateway.Provider{ID: "the-" + string(d), Fake: p, Format: string(d)}
		for pace, b := range paces {
			for _, path := range []string{"alone", "backed"} {
				m := gateway.Model{ID: fmt.Sprintf("%s-%s-%s", path, d, pace), Price: "{input: 1000, output: 2000}"}
				p.BehaveFor(m.ID, b)
				row.Models = append(row.Models, m)
				if path == "backed" {
					spare.Models = append(spare.Models, m)
				}
				for _, client := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
					q.asks = append(q.asks, ask{dialect: client, model: m.ID, stream: pace == "long" || pace == "short"})
				}
			}
		}
		o.Providers = append(o.Providers, row)
	}
	o.Providers = append(o.Providers, spare)
	q.g = gateway.Run(t, o)
	q.key = q.g.CreateKey(t, "--name", "disconnectors", "--balance-usd", "1000000")
	return q
}

// next chooses who leaves next and when: most of them within 80 ms of connecting.
func (q *disconnectors) next() *disconnector {
	a := q.asks[q.n%len(q.asks)]
	c := &disconnector{ask: a, say: fmt.Sprintf("disconnector-%d.", q.n), tls: q.n%5 == 0, after: rand.N(80 * time.Millisecond)}
	q.n++
	a.say = c.say
	c.ask = a
	if a.stream {
		switch rand.IntN(4) {
		case 0:
			c.until = "tok1 "
		case 1:
			if strings.HasSuffix(a.model, "short") {
				c.until = "tok5 "
			}
		}
	}
	q.all = append(q.all, c)
	return c
}

// disconnect sends n requests, some at a time, each of which its client ends.
func (q *disconnectors) disconnect(n int) {
	q.Helper()
	const atOnce = 16
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for range n {
		c := q.next()
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := c.run(q.Context(), q.g, q.key.Key); err != nil {
				q.Errorf("%s over %s: %v", c.say, c.model, err)
			}
		})
	}
	wait.Wait()
}

// run returns an error only if the gateway is to blame.
func (c *disconnector) run(ctx context.Context, g *gateway.Gateway, key string) error {
	patience := c.after
	if c.until != "" {
		patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer func() { c.left = time.Now() }()
	call := c.with(key)
	call.TLS = c.tls
	res, err := g.Open(ctx, call)
	if err != nil {
		return unlessDisconnected(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	c.id = res.Header.Get("X-Request-Id")
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	var seen bytes.Buffer
	buf := make([]byte, 4<<10)
	for {
		n, err := res.Body.Read(buf)
		seen.Write(buf[:n])
		if c.until != "" && bytes.Contains(seen.Bytes(), []byte(c.until)) {
			c.reached = true
			return nil
		}
		if err != nil {
			if c.whole = errors.Is(err, io.EOF); c.whole {
				err = nil
			}
			return unlessDisconnected(ctx, err)
		}
	}
}

// unlessDisconnected is the error of a client that did not disconnect by itself.
func unlessDisconnected(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// requests are what reached the providers of those who left.
func (q *disconnectors) requests() (rs []fake.Request) {
	for _, p := range q.providers {
		rs = append(rs, p.Generations()...)
	}
	return rs
}

// over waits until no provider answers any more.
func (q *disconnectors) over() {
	q.Helper()
	for _, p := range q.providers {
		if _, err := p.WaitDone(soon(q), len(p.Generations())); err != nil {
			q.Errorf("a provider goes on answering clients that left: %v", err)
		}
	}
}

// TestK34ManyClientsLeave at any moment: while they connect, before the first token, in the middle, at the end; on both paths, in both
// dialects, streamed and not. No provider goes on, nothing is left of them in the gateway, and what was delivered is charged once.
// BARDO_SOAK=1 makes it longer.
func TestK34ManyClientsLeave(t *testing.T) {
	t.Parallel()
	n := leavers
	if os.Getenv("BARDO_SOAK") != "" {
		n = soakLeavers
	}
	q := newDisconnectors(t)
	q.disconnect(2 * len(q.asks)) // connections that are kept for later are there now
	q.over()
	before := settled(t, q.g)
	q.disconnect(n)
	q.over()
	after := settled(t, q.g)
	t.Logf("\nbefore  %s\nafter   %s", before, after)
	// Some connections more or less are kept from one moment to the next; what each request left would be hundreds.
	const leeway = 24
	if after.goroutines > before.goroutines+leeway || after.bardoDescriptors > before.bardoDescriptors+leeway || after.envoyDescriptors > before.envoyDescriptors+leeway {
		t.Errorf("something is left: before %s, after %s", before, after)
	}
	q.checkProviders()
	q.checkFailures()
	q.checkCharges()
	q.g.AssertSound(t)
}

// checkProviders wants every provider's request ended soon after its client left, and that clients left at every stage.
func (q *disconnectors) checkProviders() {
	q.Helper()
	var early, inside, complete int
	var slowest time.Duration
	seen := map[string]fake.Request{}
	for _, r := range q.requests() {
		i := bytes.Index(r.Body, []byte("disconnector-"))
		say, _, ok := strings.Cut(string(r.Body[max(i, 0):]), ".")
		if i < 0 || !ok {
			q.Fatalf("whose request is %s?", r.Body)
		}
		if _, again := seen[say+"."]; again {
			q.Errorf("%s was sent twice", say)
		}
		seen[say+"."] = r
		switch {
		case !r.Cancelled:
			complete++
		case r.Sent == 0:
			early++
		default:
			inside++
		}
	}
	for _, c := range q.all {
		r, ok := seen[c.say]
		if !ok || !r.Cancelled {
			continue
		}
		slowest = max(slowest, r.CancelledAt.Sub(c.left))
	}
	q.Logf("%d clients: %d never reached a provider, %d left before its first byte, %d inside its answer, %d answers were complete; the slowest cancel came %s after its client left",
		len(q.all), len(q.all)-len(seen), early, inside, complete, slowest)
	if slowest > 10*time.Second { // far below any time-out of the gateway, and far above what a busy machine makes of it
		q.Errorf("a provider heard %s later that its client had left", slowest)
	}
	if early == 0 || inside == 0 || complete == 0 {
		q.Error("clients did not leave at every stage")
	}
}

// checkFailures wants none: the providers do what they should, and a client that leaves must not make it look otherwise.
func (q *disconnectors) checkFailures() {
	q.Helper()
	for name, n := range q.g.Metrics(q) {
		if strings.HasPrefix(name, "bardo_attempts_total{") && !strings.Contains(name, `outcome="served"`) && n > 0 || strings.HasPrefix(name, "bardo_provider_healthy{") && n != 1 {
			q.Errorf("%s is %v", name, n)
		}
	}
}

// checkCharges wants one charge at most per request, one exactly for what was delivered, and nothing held.
func (q *disconnectors) checkCharges() {
	q.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(q.g.Home, "bardo.db")+"?_busy_timeout=5000&_query_only=on")
	if err != nil {
		q.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	balance := q.balance()
	const deposited = 1_000_000_000_000
	var charges map[string]int
	var spent map[string]int64
	polltest.Until(q.T, "the charges of the balance are in the store", func() bool { // they are applied behind the requests
		charges, spent = readCharges(q.T, db)
		return deposited-spent[q.key.ID] == balance
	})
	for id, n := range charges {
		if n != 1 {
			q.Errorf("request %s has %d charges", id, n)
		}
	}
	delivered := 0
	for _, c := range q.all {
		if c.reached || c.whole {
			delivered++
			if charges[c.id] != 1 {
				q.Errorf("%s over %s got content, and request %s has %d charges", c.say, c.model, c.id, charges[c.id])
			}
		}
	}
	if delivered == 0 || slices.Max([]int{delivered, len(charges)}) > len(q.all) {
		q.Errorf("%d answers were delivered, %d requests were charged", delivered, len(charges))
	}
	q.Logf("%d clients got content, %d requests were charged", delivered, len(charges))
}

// balance is what the key has left, in millionths, when nothing is held any more.
func (q *disconnectors) balance() int64 {
	q.Helper()
	var b keyBalance
	get(q.T, q.g, q.key.Key, "/v1/balance", &b)
	if b.Held != "0.000000" {
		q.Errorf("the key has %+v, want nothing held", b)
	}
	return micro(q.T, b.Balance)
}
