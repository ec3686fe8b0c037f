package pay

import (
	"encoding/json"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

// invoice is what a request's record says of its price.
type invoice struct {
	Cost     json.Number `json:"cost_usd"`
	Provider json.Number `json:"provider_cost_usd"`
	Spread   int         `json:"spread_pct"`
	Input    int         `json:"input_tokens"`
	Output   int         `json:"output_tokens"`
	Lines    []struct {
		Kind, Provider, Model string
		Count                 int
		Price                 json.Number `json:"usd_per_million"`
		Cost                  json.Number `json:"cost_usd"`
		Source                string      `json:"price_source"`
	} `json:"invoice"`
	Payment struct {
		State, Scheme, Network, Asset, Payer, Transaction string
		PayTo                                             string      `json:"pay_to"`
		Authorized                                        json.Number `json:"authorized_usd"`
		Amount                                            json.Number `json:"amount_usd"`
		Fee                                               json.Number `json:"settlement_fee_usd"`
		Credit                                            json.Number `json:"credit_usd"`
		Block                                             int
	}
}

// invoiceOf is the record of a request, as its payer sees it without a key, once its payment has arrived.
func invoiceOf(t *testing.T, g *gateway.Gateway, id string) (v invoice) {
	t.Helper()
	for range 200 {
		got := g.Do(t, gateway.Call{Method: http.MethodGet, NoKey: true, Path: "/v1/requests/" + id})
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		v = invoice{}
		got.JSON(t, &v)
		if v.Payment.State == "confirmed" || v.Payment.State == "final" {
			return v
		}
		pause(t, 100*1e6)
	}
	t.Fatalf("the payment is %s", v.Payment.State)
	return v
}

func dollars(t *testing.T, n json.Number) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		t.Fatalf("%q is no amount", n)
	}
	return r
}

// TestX09AnInvoiceExplainsItself: the lines of a paid request sum up to its provider cost, that and the spread are its cost, and the payment says what was
// moved, where and why. Who paid needs no key for it; nobody else finds anything.
func TestX09AnInvoiceExplainsItself(t *testing.T) {
	t.Parallel()
	c := startChain(t).withUpTo(t)
	g, _ := serve(t, c, ", settlement_fee_usd: 0.002}, spread_pct: 20, tiers: {pro: {spread_pct: 15}")
	for _, accepted := range []func(testing.TB, quote) *payment{acceptUpTo, func(t testing.TB, q quote) *payment { t.Helper(); q.Accepts = q.Accepts[1:]; return accept(t, q) }} {
		pm := accepted(t, ask(t, g, chatBody(true))).sign(t)
		answer := pm.send(t, g, chatBody(true))
		v := invoiceOf(t, g, answer.Header.Get("X-Request-Id"))
		checkInvoice(t, &v, pm)
		shown := g.Bardo(t, "requests", "show", answer.Header.Get("X-Request-Id"))
		for _, part := range []string{v.Payment.Transaction, "output", "40.000000", "operator"} {
			if !strings.Contains(shown, part) {
				t.Errorf("bardo requests show lacks %q:\n%s", part, shown)
			}
		}
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodGet, NoKey: true, Path: "/v1/requests/req_00000000000000000000000"}); got.Status != http.StatusNotFound {
		t.Errorf("an id that nobody has: %d %s", got.Status, got.Body)
	}
	g.AssertSound(t)
}

func checkInvoice(t *testing.T, v *invoice, pm *payment) {
	t.Helper()
	sum := new(big.Rat)
	for _, l := range v.Lines {
		cost := dollars(t, l.Cost)
		sum.Add(sum, cost)
		per := new(big.Rat).Mul(dollars(t, l.Price), big.NewRat(int64(l.Count), 1_000_000))
		if per.Cmp(cost) != 0 || l.Source != "operator" || l.Provider != "own" || l.Model != "m" {
			t.Errorf("a line is %+v", l)
		}
	}
	if len(v.Lines) != 2 || v.Lines[0].Count != v.Input || v.Lines[1].Count != v.Output || sum.Cmp(dollars(t, v.Provider)) != 0 {
		t.Errorf("the lines are %+v of %s", v.Lines, v.Provider)
	}
	cost := new(big.Rat).Mul(sum, big.NewRat(int64(100+v.Spread), 100))
	if v.Spread != 20 || cost.Cmp(dollars(t, v.Cost)) != 0 {
		t.Errorf("%s with %d percent is %s", v.Provider, v.Spread, v.Cost)
	}
	p := &v.Payment
	rest := new(big.Rat).Sub(dollars(t, p.Amount), new(big.Rat).Add(cost, dollars(t, p.Fee)))
	if rest.Cmp(dollars(t, p.Credit)) != 0 || p.Fee != "0.002000" || dollars(t, p.Authorized).Cmp(big.NewRat(pm.Value, 1_000_000)) != 0 {
		t.Errorf("the payment is %+v for %s", p, v.Cost)
	}
	if upTo := p.Scheme == "upto"; upTo != pm.UpTo || upTo && rest.Sign() != 0 {
		t.Errorf("by scheme %s the rest is %s", p.Scheme, rest)
	}
	if !strings.EqualFold(p.Payer, pm.From.Hex()) || !strings.EqualFold(p.PayTo, payTo) || !strings.EqualFold(p.Asset, pm.Contract.Hex()) || p.Network != "eip155:84532" || len(p.Transaction) != 66 || p.Block == 0 {
		t.Errorf("the payment is %+v", p)
	}
}
