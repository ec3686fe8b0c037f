package pay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// startFacilitator runs a facilitator that nobody here wrote, and returns its address.
func startFacilitator(t *testing.T, c *chain) string {
	t.Helper()
	dir, err := filepath.Abs(tools)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), dir+"/pay/bin/node", "facilitator.cjs")
	cmd.Env = append(os.Environ(), "NODE_PATH="+dir+"/pay/node_modules", "KEY=0x"+settlerKey, "CHAIN="+c.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := bufio.NewScanner(out)
	if !s.Scan() {
		t.Fatal("the facilitator did not start")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return s.Text()
}

// between passes a facilitator's messages on, and loses or fails some.
type between struct {
	*httptest.Server
	settles       atomic.Int64
	authorization atomic.Value // of the last message
	unsent        atomic.Bool  // /settle does not reach the facilitator, and fails
	lost          atomic.Bool  // the answer to /settle is replaced by an error
}

func startBetween(t *testing.T, to string) *between {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	b := &between{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.authorization.Store(r.Header.Get("Authorization"))
		if r.URL.Path != "/settle" {
			proxy.ServeHTTP(w, r)
			return
		}
		b.settles.Add(1)
		switch {
		case b.unsent.Load():
			w.WriteHeader(http.StatusBadGateway)
		case b.lost.Load():
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusGatewayTimeout)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// serveBy starts a gateway whose payments a facilitator settles.
func serveBy(t *testing.T, c *chain, f *between, more string) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	own := fmt.Sprintf("settlement_key: '%s'", settlerKey)
	config := strings.Replace(c.config(more), own, fmt.Sprintf("facilitator: '%s', facilitator_authorization: 'Bearer the-facilitators-key'", f.URL), 1)
	return gateway.Run(t, gateway.Options{
		Config:    config,
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
	}), p
}

// TestX02AFacilitatorSettles: a facilitator and clients of others, and no account of the gateway's own. Scheme upto, which needs one, is not offered.
func TestX02AFacilitatorSettles(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	f := startBetween(t, startFacilitator(t, c))
	g, _ := serveBy(t, c, f, "")
	for _, o := range ask(t, g, chatBody(false)).Accepts {
		if o.Scheme != "exact" {
			t.Errorf("%s is offered", o.Scheme)
		}
	}
	for i, client := range []string{"fetch", "old", "python"} {
		before := c.received(t)
		r := startPayer(t, c, client).pay(t, g.URL+"/v1/chat/completions", chatBody(false))
		if r.Status != http.StatusOK || r.Settlement == nil && client != "old" || client == "fetch" && (!r.Settlement.Success || len(r.Settlement.Transaction) != 66) {
			t.Fatalf("%s: %+v\n%s", client, r, g.Log())
		}
		waitReceived(t, c, before)
		if c.transfers(t) != i+1 {
			t.Errorf("%d transfers after %d payments", c.transfers(t), i+1)
		}
	}
	if got := f.authorization.Load(); got != "Bearer the-facilitators-key" {
		t.Errorf("the facilitator is sent %q", got)
	}
	if strings.Contains(g.Log(), "the-facilitators-key") {
		t.Error("the facilitator's key is logged")
	}
	g.AssertSound(t)
}

// TestK84AFacilitatorThatSettlesAndFails: it settles and answers an error, or does not settle and answers an error. The chain decides: the payment arrives once, the payer is charged once, and is
// never asked to pay again.
func TestK84AFacilitatorThatSettlesAndFails(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	f := startBetween(t, startFacilitator(t, c))
	g, p := serveBy(t, c, f, ", bump_after: 2s")
	for i, fail := range []*atomic.Bool{&f.lost, &f.unsent} {
		fail.Store(true)
		before := f.settles.Load()
		pm := accept(t, ask(t, g, chatBody(true))).sign(t)
		if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		polltest.Until(t, "the facilitator's call", func() bool { return f.settles.Load() > before })
		if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusConflict || !strings.Contains(got.Body, "payment_replayed") {
			t.Errorf("the same payment: %d %s", got.Status, got.Body)
		}
		fail.Store(false)
		settle(t, c, i+1)
		if len(p.Generations()) != i+1 {
			t.Errorf("the provider was called %d times", len(p.Generations()))
		}
	}
	if v := creditOf(t, g, "wallet_70997970c51812dc3a010c7d01b50e0d17dc79c8"); v != c.received(t)-2*(usualCost+1000) {
		t.Errorf("%d arrived, and the wallet has %d", c.received(t), v)
	}
	g.AssertSound(t)
}

// TestPitfall6AFacilitatorRefusesWhatIsWrong: what it does not take is not served.
func TestPitfall6AFacilitatorRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/supported":
			_, _ = io.WriteString(w, `{"kinds":[{"x402Version":1,"scheme":"exact","network":"base-sepolia"}]}`)
		case "/verify":
			_, _ = io.WriteString(w, `{"isValid":false,"invalidReason":"payer_is_not_welcome"}`)
		default:
			t.Errorf("%s is asked for", r.URL.Path)
		}
	}))
	t.Cleanup(refusing.Close)
	g, p := serveBy(t, c, startBetween(t, refusing.URL), "")
	got := accept(t, ask(t, g, chatBody(false))).sign(t).send(t, g, chatBody(false))
	if reason(t, got) != "payer_is_not_welcome" || len(p.Generations()) != 0 || c.transfers(t) != 0 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
