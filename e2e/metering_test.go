package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// meteredCase is one request with something that happens to it.
type meteredCase struct {
	ask   ask
	b     fake.Behaviour
	leave leavePoint
}

// leavePoint is when a client closes its connection: an event, not a time, so that a slow machine changes nothing. The zero value: it reads to
// the end.
type leavePoint struct {
	received bool // once the provider has the request
	bytes    int  // once it has so many bytes of the answer's body
}

func (l leavePoint) leaves() bool { return l != leavePoint{} }

// The models of the metering test: $1 and $10 per million tokens, and a window that bounds what a provider can claim.
const (
	meteredWindow, meteredOutput = 5000, 100
	meteredMost                  = (meteredWindow + meteredOutput) * 10 // millionths, for one call
)

// newMeteredCase makes a case out of chance alone.
func newMeteredCase(r *rand.Rand) meteredCase {
	clients, providers := []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini}, []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini}
	m := meteredCase{ask: ask{dialect: clients[r.IntN(3)], model: "at-" + string(providers[r.IntN(3)]), stream: r.IntN(3) > 0}}
	if m.ask.dialect == fake.OpenAI {
		m.ask.more = fmt.Sprintf(`"max_tokens":%d`, meteredOutput)
	}
	m.b = fake.Behaviour{Tokens: 1 + r.IntN(6), Gap: time.Duration(r.IntN(5)) * time.Millisecond}
	switch r.IntN(4) {
	case 0:
		m.b.Usage = &fake.Usage{Missing: true}
	case 1:
		m.b.Usage = &fake.Usage{Input: r.IntN(1 << 40), Output: r.IntN(1 << 40)}
	default:
		m.b.Usage = &fake.Usage{Input: 1 + r.IntN(2000), Output: 1 + r.IntN(meteredOutput), OnlyAtEnd: r.IntN(2) == 0}
	}
	if kinds := []fake.BreakKind{fake.Healthy, fake.Healthy, fake.Reset, fake.Close, fake.Hang, fake.ErrorEvent, fake.Stop}; true {
		m.b.Break = fake.Break{Kind: kinds[r.IntN(len(kinds))], At: fake.Stage(r.IntN(3)), Tokens: r.IntN(4)}
	}
	if r.IntN(8) == 0 {
		m.b.Status = []int{400, 429, 500, 503}[r.IntN(4)]
	}
	switch {
	case m.b.Break.Kind == fake.Hang || r.IntN(6) == 0:
		m.leave.received = true
	case r.IntN(5) == 0:
		m.leave.bytes = 1 + r.IntN(400)
	}
	return m
}

// play sends a case's request, and returns what its client saw: status 0 where it closed the connection before there was an answer.
func (m *meteredCase) play(t *testing.T, g *gateway.Gateway, p *fake.Server, key string) (status int, body string, whole bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Patience)
	defer cancel()
	if m.leave.received {
		go func() {
			if _, err := p.WaitGenerations(ctx, 1); err == nil {
				cancel()
			}
		}()
	}
	res, err := g.Open(ctx, m.ask.with(key))
	if err != nil {
		return 0, "", false
	}
	defer func() { _ = res.Body.Close() }()
	var r io.Reader = res.Body
	if m.leave.bytes > 0 {
		r = io.LimitReader(r, int64(m.leave.bytes))
	}
	b, err := io.ReadAll(r)
	return res.StatusCode, string(b), err == nil
}

// TestD81MeteringHoldsWhateverHappens: of requests in all formats, with any usage, cut, refused, hung or left by their client at any point,
// a customer pays nothing for an error of ours, at least its input for a call that was not refused, and never more than a call can use;
// what was charged is what the balance lost, and nothing stays reserved. BARDO_SOAK=1 makes it longer.
func TestD81MeteringHoldsWhateverHappens(t *testing.T) {
	t.Parallel()
	n := 60
	if os.Getenv("BARDO_SOAK") != "" {
		n = 3000
	}
	fakes, o := map[string]*fake.Server{}, gateway.Options{Config: free + "routing: {timeouts: {first_token: 3s, idle: 3s}}\n"}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		p := fake.Start(t, fake.Config{Dialect: d, Name: "p-" + string(d)})
		fakes["at-"+string(d)] = p
		o.Providers = append(o.Providers, gateway.Provider{ID: "p-" + string(d), Fake: p, Format: string(d), Models: []gateway.Model{{
			ID: "at-" + string(d), Price: "{input: 1, output: 10}", More: fmt.Sprintf("context: %d, max_output: %d", meteredWindow, meteredOutput),
		}}})
	}
	g := gateway.Run(t, o)
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "1000").Key
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var all int64
	for i := range n {
		m := newMeteredCase(r)
		p := fakes[m.ask.model]
		p.Forget()
		p.Behave(m.b)
		before := settledBalance(t, g, key)
		status, body, whole := m.play(t, g, p, key)
		paid := before - settledBalance(t, g, key)
		all += paid
		calls := p.Generations()
		if what := m.wrong(status, body, whole, paid, len(calls)); what != "" {
			t.Errorf("seed %d, case %d: %s: %d millionths, status %d, whole=%v, %d calls, %+v, usage %+v\n%.600s", seed, i, what, paid, status, whole, len(calls), m, m.b.Usage, body)
		}
	}
	var use struct{ Data []used }
	get(t, g, key, "/v1/usage", &use)
	var sum int64
	for _, u := range use.Data {
		sum += micro(t, u.Cost)
	}
	if sum != all {
		t.Errorf("seed %d: the balance lost %d, the usage says %d", seed, all, sum)
	}
	g.AssertSound(t)
}

// settledBalance is a key's balance once none of its requests is under way.
func settledBalance(t *testing.T, g *gateway.Gateway, key string) (n int64) {
	t.Helper()
	eventually(t, "the end of all reservations", func() bool {
		if g.Metrics(t).Sum("bardo_active_exchanges") != 0 {
			return false
		}
		f := fundsOf(t, g, key)
		n = micro(t, *f.Balance)
		return f.Held == "0.000000"
	})
	return n
}

// wrong says which rule a charge breaks; "" for none.
func (m *meteredCase) wrong(status int, body string, whole bool, paid int64, calls int) string {
	u := m.b.Usage
	owed := int64(min(u.Input, meteredWindow+meteredOutput)) + 10*int64(min(u.Output, max(meteredWindow+meteredOutput-u.Input, 0)))
	complete := status == http.StatusOK && whole && !m.leave.leaves() && m.b.Break.Kind == fake.Healthy && m.b.Status == 0
	switch {
	case paid < 0:
		return "a customer was paid"
	case paid > meteredMost:
		return "more than a call can use"
	case calls == 0 && paid > 0:
		return "no provider was called"
	case status >= 400 && paid > 0:
		return "an error was charged"
	case status == 0 && calls > 0 && m.b.Status == 0 && m.b.Break.Kind == fake.Hang && paid == 0:
		return "the input of a call under way is free"
	case complete && u.Missing && paid == 0:
		return "an answer without usage is free"
	case complete && !u.Missing && paid != owed:
		return fmt.Sprintf("an answer costs %d", owed)
	case status == http.StatusOK && strings.Contains(body, "tok0") && paid == 0:
		return "what was delivered is free"
	}
	return ""
}
