package pay

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	paid402 "bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/evm"
)

// toll is BlockRun: it names a price per call (scheme exact), verifies the payment, serves the call, and settles on the chain.
type toll struct {
	*httptest.Server
	t     *testing.T
	c     *chain
	terms *paid402.Terms
	node  *evm.Node
	proxy *httputil.ReverseProxy

	mu       sync.Mutex
	price    int64
	payTo    string
	asset    string
	drop     bool // the answer to a payment
	none     bool // a payment is answered with something that is no answer
	status   int  // instead of an answer to a payment; 0 for none
	unpaid   int
	payments []*paid402.Payment
}

func startToll(t *testing.T, c *chain, provider *fake.Server) *toll {
	t.Helper()
	known, _ := paid402.FindNetwork("base-sepolia")
	s := &toll{t: t, c: c, price: 5000, payTo: payTo, asset: c.Token.Hex()}
	s.terms = &paid402.Terms{Network: known.Network, Asset: paid402.Token{Address: paid402.Address(c.Token), Name: "USD Coin", Version: "2"}, ServeTime: 2 * time.Minute, Margin: time.Minute, QuoteTTL: time.Minute}
	s.terms.PayTo, _ = paid402.ParseAddress(payTo)
	var err error
	if s.node, err = evm.Open(t.Context(), paid402.NodeOptions{URL: c.URL, Key: settlerKey, Terms: s.terms}); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(provider.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.proxy = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
		r.Out.Header.Set("Authorization", "Bearer "+provider.Key)
	}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *toll) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.proxy.ServeHTTP(w, r)
		return
	}
	text := r.Header.Get("Payment-Signature")
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" {
		s.unpaid++
		s.challenge(w, r)
		return
	}
	p, err := s.terms.Parse(text, 2)
	if err == nil {
		err = s.terms.Check(p, time.Now())
	}
	if err == nil {
		err = s.node.Verify(r.Context(), p)
	}
	if err != nil || int64(p.Value) != s.price {
		s.t.Errorf("a wrong payment: %v, %+v", err, p)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.payments = append(s.payments, p)
	s.answer(w, r, p)
}

// answer serves a verified payment as the test wants it.
func (s *toll) answer(w http.ResponseWriter, r *http.Request, p *paid402.Payment) {
	if s.drop {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			s.t.Error(err)
			return
		}
		_ = c.Close()
		return
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	if s.none {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"half`)
		return
	}
	hash := s.settle(p)
	receipt, err := json.Marshal(map[string]any{"success": true, "transaction": hash, "network": "eip155:84532", "payer": p.From.String()})
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set("Payment-Response", base64.StdEncoding.EncodeToString(receipt))
	s.proxy.ServeHTTP(w, r)
}

// settle moves the money.
func (s *toll) settle(p *paid402.Payment) string {
	ctx, transfer := s.t.Context(), &paid402.Transfer{Authorization: p.Authorization, Amount: p.Value, Signature: p.Signature}
	slot, err := s.node.Slot(ctx)
	if err != nil {
		s.t.Error(err)
		return ""
	}
	tx, err := s.node.Prepare(ctx, transfer, slot, paid402.Fees{})
	if err == nil {
		err = s.node.Send(ctx, tx.Raw)
	}
	if err != nil {
		s.t.Error(err)
		return ""
	}
	return tx.Hash.String()
}

func (s *toll) challenge(w http.ResponseWriter, r *http.Request) {
	text, err := json.Marshal(map[string]any{"x402Version": 2, "error": "Payment required", "resource": map[string]any{"url": s.URL + r.URL.Path}, "accepts": []any{map[string]any{
		"scheme": "exact", "network": "eip155:84532", "amount": strconv.FormatInt(s.price, 10), "asset": s.asset, "payTo": s.payTo,
		"maxTimeoutSeconds": int64(s.terms.MaxTimeout().Seconds()), "extra": map[string]any{"name": "USD Coin", "version": "2"},
	}}})
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set("Payment-Required", base64.StdEncoding.EncodeToString(text))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusPaymentRequired)
	_, _ = w.Write([]byte(`{"error":"Payment required"}`))
}

// seen is how many calls came without a payment, and how many different payments.
func (s *toll) seen() (unpaid, payments int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nonces := map[paid402.Word]bool{}
	for _, p := range s.payments {
		nonces[p.Nonce] = true
	}
	return s.unpaid, len(nonces)
}

// change changes what the toll does.
func (s *toll) change(do func(*toll)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s)
}

// payingGateway is a gateway that pays BlockRun, and has another provider of the same model behind it.
func payingGateway(t *testing.T, c *chain) (*gateway.Gateway, gateway.Options, *toll, *fake.Server) {
	t.Helper()
	usage := fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}}
	blockrun, other := fake.Start(t, fake.Config{Vendor: fake.BlockRun}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	blockrun.Behave(usage)
	other.Behave(usage)
	s := startToll(t, c, blockrun)
	at, err := url.Parse(blockrun.URL)
	if err != nil {
		t.Fatal(err)
	}
	model := []gateway.Model{{ID: "m", Upstream: "acme/m", Price: "{input: 10, output: 40}"}}
	o := gateway.Options{
		Config: "routing: {strategy: ordered, ping_interval: 1h}\nbilling: {spread_pct: 20}\n",
		Providers: []gateway.Provider{
			{ID: "blockrun", BaseURL: s.URL + at.Path, Models: model, More: fmt.Sprintf("wallet_key: %q, payment: {pay_to: [%q], network: base-sepolia, asset: %q, rpc: %q}", payerKey, payTo, c.Token.Hex(), c.URL)},
			{ID: "own", Fake: other, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}},
		},
	}
	return gateway.Run(t, o), o, s, other
}

// outgoings are the gateway's payments, newest first.
func outgoings(t *testing.T, g *gateway.Gateway) (all []struct{ State, Purpose, Transaction, Reason string }) {
	t.Helper()
	if err := json.Unmarshal([]byte(g.Bardo(t, "pay", "list", "--json", "--limit", "100")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestX04TheGatewayPaysItsProviderPerCall: each call is paid for with the price that the provider names, which is its cost here; like calls need no second message.
func TestX04TheGatewayPaysItsProviderPerCall(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _, s, other := payingGateway(t, c)
	for i, stream := range []bool{false, true, false} {
		got := g.Chat(t, chatBody(stream))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "blockrun" {
			t.Fatalf("%d %s\n%s", got.Status, got.Body, g.Log())
		}
		if payment := got.Header.Get("Payment-Response") + got.Header.Get("Payment-Required"); payment != "" {
			t.Errorf("the client is told of the gateway's payment: %s", payment)
		}
		if arrived := waitReceived(t, c, int64(5000*i)); arrived != int64(5000*(i+1)) {
			t.Errorf("%d arrived after %d calls", arrived, i+1)
		}
		v := costOf(t, g, got.Header.Get("X-Request-Id"))
		if v.Provider != "0.005" && v.Provider != "0.005000" || v.Cost != "0.006000" || len(v.Lines) != 1 || v.Lines[0].Kind != "reported" {
			t.Errorf("stream=%v: the record is %+v", stream, v)
		}
	}
	if unpaid, payments := s.seen(); unpaid != 1 || payments != 3 || len(other.Generations()) != 0 {
		t.Errorf("%d prices were asked for, %d paid, and the other provider was called %d times", unpaid, payments, len(other.Generations()))
	}
	g.Bardo(t, "pay", "reconcile", "--network", "base-sepolia", "--rpc", c.URL)
	all := outgoings(t, g)
	for _, a := range all {
		if a.State != "used" || a.Purpose != "blockrun" || len(a.Transaction) != 66 {
			t.Errorf("%+v", a)
		}
	}
	if len(all) != 3 {
		t.Errorf("%+v", all)
	}
	if strings.Contains(g.Log(), payerKey[:20]) {
		t.Error("the key is logged")
	}
	g.AssertSound(t)
}

// costOf is the record of a request, once it is charged.
func costOf(t *testing.T, g *gateway.Gateway, id string) (v invoice) {
	t.Helper()
	for range 200 {
		got := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/requests/" + id})
		if got.Status == http.StatusOK {
			got.JSON(t, &v)
			return v
		}
		pause(t, 50*time.Millisecond)
	}
	t.Fatal("the request has no record")
	return v
}

// TestPitfall14AProviderThatWantsSomethingElseIsNotPaid: another payee, another token, a price above what the call can cost. The next candidate serves.
func TestPitfall14AProviderThatWantsSomethingElseIsNotPaid(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _, s, other := payingGateway(t, c)
	for i, change := range []func(*toll){
		func(s *toll) { s.payTo = "0x00000000000000000000000000000000000000bb" },
		func(s *toll) { s.payTo, s.asset = payTo, "0x00000000000000000000000000000000000000cc" },
		func(s *toll) { s.asset, s.price = c.Token.Hex(), 499_000 },
	} {
		s.change(change)
		got := g.Chat(t, chatBody(i%2 == 1))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "own" || len(other.Generations()) != i+1 {
			t.Fatalf("%d %s %v\n%s", got.Status, got.Body, got.Header, g.Log())
		}
	}
	if _, payments := s.seen(); payments != 0 || len(outgoings(t, g)) != 0 || c.received(t) != 0 {
		t.Errorf("%d were paid: %+v", payments, outgoings(t, g))
	}
}

// TestPitfall13AProviderThatDoesNotAnswerIsNotPaidTwice: the payment has left, and the answer is lost, or is a failure. The next candidate serves, and the payment stays at
// risk until the chain says what became of it.
func TestPitfall13AProviderThatDoesNotAnswerIsNotPaidTwice(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, o, s, other := payingGateway(t, c)
	for i, change := range []func(*toll){func(s *toll) { s.drop = true }, func(s *toll) { s.drop, s.status = false, http.StatusInternalServerError }} {
		s.change(change)
		got := g.Chat(t, chatBody(false))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "own" {
			t.Fatalf("%d %s\n%s", got.Status, got.Body, g.Log())
		}
		if _, payments := s.seen(); payments != i+1 || len(other.Generations()) != i+1 {
			t.Errorf("%d payments, %d calls of the other provider", payments, len(other.Generations()))
		}
		if v := costOf(t, g, got.Header.Get("X-Request-Id")); v.Provider != "0.003" && v.Provider != "0.003000" {
			t.Errorf("the client pays for what it did not get: %+v", v)
		}
	}
	all := outgoings(t, g)
	if len(all) != 2 || all[0].State != "open" || all[1].State != "open" || g.Metrics(t).Sum("bardo_payments_at_risk_micro_usd") != 10_000 {
		t.Errorf("%+v", all)
	}
	c.Do(t, nil, "evm_increaseTime", 24*3600)
	c.Do(t, nil, "evm_mine")
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	o.Home, o.NoKey = g.Home, true
	gateway.Run(t, o)
	polltest.Until(t, "that the chain has said of both that they are unused", func() bool {
		all = outgoings(t, g)
		return all[0].State == "unused" && all[1].State == "unused"
	})
}

// TestPitfall13AnAnswerThatIsNoneIsNotPaidTwice: the provider takes the payment, and answers with something that is no answer. The request is not paid for again, though it could be tried there once more,
// and its caller pays nothing.
func TestPitfall13AnAnswerThatIsNoneIsNotPaidTwice(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _, s, _ := payingGateway(t, c)
	s.change(func(s *toll) { s.none = true })
	for i := range 2 {
		body := strings.Replace(chatBody(i == 1), `"m"`, `"blockrun/m"`, 1) // the only candidate
		if got := g.Chat(t, body); got.Status < http.StatusBadGateway {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		if _, payments := s.seen(); payments != i+1 {
			t.Errorf("%d payments for %d requests", payments, i+1)
		}
	}
	g.AssertSound(t)
}
