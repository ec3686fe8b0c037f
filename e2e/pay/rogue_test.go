package pay

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/seedtest"
	paid402 "bardo.money/gateway/policy/pay"
)

// The caps of the gateway's wallet in this file, in millionths.
const (
	capEach = 20_000
	capDay  = 90_000
)

// highwayman is a toll that names random prices, and answers anything to payments. It keeps what it was sent.
type highwayman struct {
	place *httptest.Server
	*toll
	random *rand.Rand
	sent   map[paid402.Word]int64 // amounts
	failed map[string]int         // payments of a request that were not answered with success
}

func startHighwayman(t *testing.T, r *rand.Rand, c *chain, p *fake.Server) *highwayman {
	t.Helper()
	h := &highwayman{toll: startToll(t, c, p), random: rand.New(rand.NewPCG(r.Uint64(), 0)), sent: map[paid402.Word]int64{}, failed: map[string]int{}}
	h.place = httptest.NewServer(h)
	t.Cleanup(h.place.Close)
	return h
}

// ServeHTTP implements http.Handler.
func (h *highwayman) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		h.proxy.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	h.mu.Lock()
	defer h.mu.Unlock()
	text := r.Header.Get("Payment-Signature") + r.Header.Get("X-Payment")
	if text == "" {
		h.demand(w, r)
		return
	}
	p, err := h.terms.Parse(text, 2)
	if err == nil {
		err = h.terms.Check(p, time.Now())
	}
	if err != nil || !h.node.Signed(p) || p.UpTo || p.Value > capEach || p.From.String() != strings.ToLower(addressOf(payerKey).Hex()) {
		h.t.Errorf("a payment that is not allowed: %v %+v", err, p)
		return
	}
	h.sent[p.Nonce] = int64(p.Value)
	h.serve(w, r, string(body), p)
}

// demand answers a request without a payment.
func (h *highwayman) demand(w http.ResponseWriter, r *http.Request) {
	h.price, h.payTo, h.asset = 1000+int64(h.random.IntN(7000)), payTo, h.c.Token.Hex()
	network, timeout, scheme := "eip155:84532", int64(h.terms.MaxTimeout().Seconds()), "exact"
	switch h.random.IntN(24) {
	case 0:
		h.payTo = "0x00000000000000000000000000000000000000bb"
	case 1:
		h.asset = "0x00000000000000000000000000000000000000cc"
	case 2:
		network = oneOf(h.random, "eip155:8453", "base-sepolia", "")
	case 3:
		h.price = oneOf[int64](h.random, 0, -1, capEach+1, 499_000, 1e13)
	case 4:
		timeout = oneOf[int64](h.random, 0, -1, 3601, 1<<62)
	case 5:
		scheme = oneOf(h.random, "upto", "", "deferred")
	case 6:
		w.Header().Set("Payment-Required", oneOf(h.random, "%", "e30=", "bnVsbA==", strings.Repeat("QUFB", 9000)))
		w.WriteHeader(http.StatusPaymentRequired)
		return
	case 7:
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, oneOf(h.random, "", "{}", "<html>", strings.Repeat("x", 3<<20)))
		return
	case 8:
		http.Redirect(w, r, h.place.URL+"/elsewhere", oneOf(h.random, http.StatusFound, http.StatusTemporaryRedirect))
		return
	case 9:
		hangUp(w)
		return
	case 10:
		h.proxy.ServeHTTP(w, r) // for nothing
		return
	}
	text, err := json.Marshal(map[string]any{"x402Version": 2, "error": "x", "resource": map[string]any{"url": "http://x"}, "accepts": []any{map[string]any{
		"scheme": scheme, "network": network, "amount": fmt.Sprint(h.price), "asset": h.asset, "payTo": h.payTo, "maxTimeoutSeconds": timeout,
		"extra": map[string]any{"name": "USD Coin", "version": "2", "facilitatorAddress": payTo},
	}}})
	if err != nil {
		h.t.Error(err)
	}
	w.Header().Set("Payment-Required", base64.StdEncoding.EncodeToString(text))
	w.WriteHeader(http.StatusPaymentRequired)
}

// serve answers a payment.
func (h *highwayman) serve(w http.ResponseWriter, r *http.Request, body string, p *paid402.Payment) {
	h.failed[body]++
	if h.failed[body] > 1 {
		h.t.Errorf("two payments for one request, the first of which was not answered: %s", body)
	}
	switch h.random.IntN(8) {
	case 0:
		hangUp(w)
	case 1:
		w.WriteHeader(oneOf(h.random, 400, 402, 403, 429, 500, 503))
	case 2:
		h.demand(w, r)
	case 3:
		http.Redirect(w, r, h.place.URL+"/elsewhere", http.StatusTemporaryRedirect)
	case 4:
		w.Header().Set("Payment-Response", oneOf(h.random, "%", "e30="))
		_, _ = io.WriteString(w, oneOf(h.random, "", "{}", "<html>"))
	default:
		h.failed[body]--
		w.Header().Set("Payment-Response", base64.StdEncoding.EncodeToString([]byte(`{"success":true,"transaction":"`+p.Nonce.String()+`"}`)))
		h.proxy.ServeHTTP(w, r)
	}
}

// payments are how many there were, and what they come to.
func (h *highwayman) signed() (count int, sum int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, amount := range h.sent {
		sum += amount
	}
	return len(h.sent), sum
}

// TestPitfall13And14ARogueProviderIsNotPaidMore: a provider that is paid per call names random prices, and answers anything to payments. The gateway signs within its rules alone, not twice for a
// request that was not answered, and not more than a day's cap; callers are served by another provider, and charged what was paid. BARDO_SOAK=1 makes it longer; BARDO_SEED is the one seed to repeat.
func TestPitfall13And14ARogueProviderIsNotPaidMore(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(20) {
		for i, shape := range []string{"extproc", "module"} {
			t.Run(fmt.Sprintf("%s/seed=%d", shape, seed), func(t *testing.T) {
				t.Parallel()
				rob(t, shape, rand.New(rand.NewPCG(seed, uint64(i))))
			})
		}
	}
}

func rob(t *testing.T, shape string, r *rand.Rand) {
	t.Helper()
	c := startChain(t)
	p, other := fake.Start(t, fake.Config{Vendor: fake.BlockRun}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	h := startHighwayman(t, r, c, p)
	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	var models, others []gateway.Model // one each, so that no failure keeps the provider from the next request
	for i := range 40 {
		models = append(models, gateway.Model{ID: fmt.Sprint("m", i), Upstream: fmt.Sprint("acme/m", i), Price: "{input: 10, output: 40}"})
		others = append(others, gateway.Model{ID: fmt.Sprint("m", i), Price: "{input: 10, output: 40}"})
	}
	own := fmt.Sprintf("wallet_key: %q, max_usd_per_request: %f, payment: {pay_to: [%q], network: base-sepolia, asset: %q, max_usd_per_day: %f}", payerKey, capEach/1e6, payTo, c.Token.Hex(), capDay/1e6)
	g := gateway.Run(t, gateway.Options{
		DataPath: shape, Config: "routing: {strategy: ordered, ping_interval: 1h}\nbilling: {spread_pct: 20}\nlimits: {rpm: 0}\n",
		Providers: []gateway.Provider{{ID: "blockrun", BaseURL: h.place.URL + at.Path, Models: models, More: own}, {ID: "own", Fake: other, Models: others}},
	})
	const balance = 10_000_000
	key := g.CreateKey(t, "--name", "caller", "--balance-usd", "10").Key
	hands := make(chan struct{}, 4)
	var all sync.WaitGroup
	for i := range models {
		body := fmt.Sprintf(`{"model":"%sm%d","max_tokens":%d,"stream":%v,"messages":[{"role":"user","content":"This is call %d"}]}`, oneOf(r, "", "blockrun/"), i, oneOf(r, 50, 200, 400), r.IntN(2) == 0, i)
		hands <- struct{}{}
		all.Go(func() {
			defer func() { <-hands }()
			got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: body, Key: key})
			if got.Status == http.StatusInternalServerError || got.Status == 0 {
				t.Errorf("%s: %d %s", body, got.Status, got.Body)
			}
		})
	}
	all.Wait()
	h.compare(g, key, balance)
}

// compare compares what was signed with the gateway's book, and what callers paid with their answers.
func (h *highwayman) compare(g *gateway.Gateway, key string, balance int64) {
	h.t.Helper()
	count, sum := h.signed()
	if count < 5 || sum > capDay {
		h.t.Errorf("%d payments of %d were signed, and at most %d may be", count, sum, capDay)
	}
	if list := outgoings(h.t, g); len(list) != count {
		h.t.Errorf("%d payments were signed, and the book has %d: %+v", count, len(list), list)
	}
	var page struct {
		Balance json.Number `json:"balance_usd"`
		Held    json.Number `json:"held_usd"`
	}
	g.Do(h.t, gateway.Call{Path: "/v1/balance", Key: key}).JSON(h.t, &page)
	m := &market{T: h.t}
	if got := micros(m, page.Balance); got < balance-2*sum-40*10_000 || got >= balance {
		h.t.Errorf("the caller has %d of %d", got, balance)
	}
	g.AssertSound(h.t)
}
