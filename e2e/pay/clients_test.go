package pay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// result is what a driver prints.
type result struct {
	Error      string
	Status     int
	Text       string
	Request    string
	Settlement *struct {
		Success              bool
		Transaction, Network string
		Payer, ErrorReason   string
		Amount               string
	}
	Old  *string
	Seen []struct {
		Status  int
		Payment *string
	}
}

// payer is a driver with a foreign client, which pays for one request after another, each with a client of its own: a start takes seconds of CPU
// time. Not safe for concurrent use.
type payer struct {
	name string
	in   *json.Encoder
	out  *json.Decoder
}

// startPayer starts a driver, which ends with the test.
func startPayer(t *testing.T, c *chain, client string) *payer {
	t.Helper()
	dir, err := filepath.Abs(tools)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), dir+"/pay/bin/node", "driver.cjs", client)
	if rest, ok := strings.CutPrefix(client, "python"); ok {
		cmd = exec.CommandContext(t.Context(), dir+"/pay-py/bin/python", "driver.py", strings.TrimPrefix(rest, "-"))
	}
	cmd.Env = append(os.Environ(), "NODE_PATH="+dir+"/pay/node_modules", "NODE_COMPILE_CACHE="+dir+"/pay/compiled", "KEY=0x"+payerKey, "CHAIN="+c.URL)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() }) // it may have been killed
	return &payer{client, json.NewEncoder(in), json.NewDecoder(out)}
}

// pay has it pay for a request.
func (p *payer) pay(t *testing.T, url, body string) (r result) {
	t.Helper()
	if err := p.in.Encode(map[string]string{"url": url, "body": body}); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	if err := p.out.Decode(&r); err != nil || r.Error != "" {
		t.Fatalf("%s: %v %s", p.name, err, r.Error)
	}
	return r
}

// serve starts a gateway that takes payments, in front of a provider.
func serve(t *testing.T, c *chain, more string) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	return gateway.Run(t, gateway.Options{
		Config:    c.config(more),
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
	}), p
}

func chatBody(stream bool) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":200,"stream":%v,"messages":[{"role":"user","content":"Hello"}]}`, stream)
}

// cost of the usual answer, in millionths: 100 tokens at $10 and 50 at $40 per million.
const usualCost = 100*10 + 50*40

// TestX02ForeignClientsPay: each client pays once, for an answer that is streamed and one that is not. What is on the chain is the quote; what the request
// cost is charged, and the rest is the wallet's credit.
func TestX02ForeignClientsPay(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	wallet := "wallet_" + strings.ToLower(addressOf(payerKey).Hex()[2:])
	var charged, fees, calls int64
	for _, client := range []string{"fetch", "python", "old"} {
		by := startPayer(t, c, client)
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", client, stream), func(t *testing.T) {
				before := c.received(t)
				r := by.pay(t, g.URL+"/v1/chat/completions", chatBody(stream))
				if r.Status != http.StatusOK || client != "python" && (len(r.Seen) != 2 || r.Seen[0].Status != http.StatusPaymentRequired) {
					t.Fatalf("%+v\n%s", r, g.Log())
				}
				if calls++; int64(len(p.Generations())) != calls {
					t.Errorf("the provider was called %d times, want %d", len(p.Generations()), calls)
				}
				if !stream && (r.Settlement == nil || !r.Settlement.Success || len(r.Settlement.Transaction) != 66 || r.Old == nil) {
					t.Errorf("the settlement is %+v", r.Settlement)
				}
				if stream && !strings.Contains(r.Text, `"payment":"pending"`) {
					t.Errorf("the stream ends in %s", r.Text)
				}
				got := waitReceived(t, c, before)
				if got-before < usualCost || got-before > 30_000 {
					t.Errorf("%d arrived", got-before)
				}
				charged, fees = charged+usualCost, fees+1000
				if credit := creditOf(t, g, wallet); credit != got-charged-fees {
					t.Errorf("the wallet has a credit of %d, want %d of %d", credit, got-charged-fees, got)
				}
			})
		}
	}
	g.AssertSound(t)
}

// waitReceived waits until the operator has more than before.
func waitReceived(t *testing.T, c *chain, before int64) (got int64) {
	t.Helper()
	polltest.Until(t, "money on the chain", func() bool {
		got = c.received(t)
		return got > before
	})
	return got
}

// creditOf is a wallet's balance in the ledger, in millionths.
func creditOf(t *testing.T, g *gateway.Gateway, wallet string) int64 {
	t.Helper()
	has, _ := moneyOf(t, g, wallet)
	return has
}

// wantOwed waits until a wallet owes an amount.
func wantOwed(t *testing.T, g *gateway.Gateway, wallet string, want int64) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("%s owes %d", wallet, want), func() bool {
		_, owed := moneyOf(t, g, wallet)
		return owed == want
	})
}

// moneyOf is a wallet's balance in the ledger, and what it owes, in millionths.
func moneyOf(t *testing.T, g *gateway.Gateway, wallet string) (has, owed int64) {
	t.Helper()
	out := g.Bardo(t, "balance", wallet, "--json")
	var b struct {
		Balance json.Number `json:"balance_usd"`
		Owed    json.Number `json:"owed_usd"`
	}
	if err := json.Unmarshal([]byte(out), &b); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	millionths := func(n json.Number) int64 {
		var whole, part int64
		if _, err := fmt.Sscanf(string(n), "%d.%06d", &whole, &part); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return whole*1_000_000 + part
	}
	return millionths(b.Balance), millionths(b.Owed)
}
