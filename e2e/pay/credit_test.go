package pay

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// TestD56TheRestOfAPaymentIsCredit: what a request did not cost lowers the price of the wallet's next ones.
func TestD56TheRestOfAPaymentIsCredit(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, _ := serve(t, c, "")
	q := ask(t, g, chatBody(false))
	first := accept(t, q).sign(t)
	if got := first.send(t, g, chatBody(false)); !settlementOf(t, got).Success {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	body := `{"model":"m","max_tokens":200,"messages":[{"role":"user","content":"Hallo"}]}`
	wallet := "X-Bardo-Wallet: " + addressOf(payerKey).Hex()
	lower := ask(t, g, body, wallet)
	second := accept(t, lower)
	if want := max(accept(t, ask(t, g, body)).Value-(first.Value-usualCost-1000), 1000); second.Value != want {
		t.Errorf("the price with a credit is %d, want %d", second.Value, want)
	}
	stranger := accept(t, lower)
	stranger.Key, stranger.From = poorKey, addressOf(poorKey)
	c.mint(t, stranger.From, 1_000_000)
	if got := reason(t, stranger.sign(t).send(t, g, body)); got != "invalid_exact_evm_payload_authorization_value_mismatch" {
		t.Errorf("another wallet at this price: %s", got)
	}
	if got := second.sign(t).send(t, g, body); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	settle(t, c, 2)
	if got, has := c.received(t), creditOf(t, g, "wallet_70997970c51812dc3a010c7d01b50e0d17dc79c8"); has != got-2*usualCost-2*1000 {
		t.Errorf("%d arrived, and the wallet has %d", got, has)
	}
	g.AssertSound(t)
}

// TestPitfall1TwoGatewaysOnOneStore: a payment that is sent to both at the same time is served by one, whether they are on one machine or on two.
func TestPitfall1TwoGatewaysOnOneStore(t *testing.T) {
	t.Parallel()
	onBothStores(t, sendToBoth)
}

// onBothStores runs a test with the address of a ledger in a file of SQLite, and with that of one in PostgreSQL.
func onBothStores(t *testing.T, test func(t *testing.T, ledger string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite://"+filepath.Join(t.TempDir(), "shared.db"))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, postgrestest.URL(t))
	})
}

// sendToBoth sends a payment 500 times to two gateways on one ledger, and once more after they were started again.
func sendToBoth(t *testing.T, ledger string) {
	t.Helper()
	c := startChain(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	gateways, options := pair(t, c, p, ledger)
	pm := accept(t, ask(t, gateways[0], chatBody(false))).sign(t)
	var served atomic.Int64
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			switch got := pm.send(t, gateways[i%2], chatBody(false)); got.Status {
			case http.StatusOK:
				served.Add(1)
			case http.StatusConflict:
			default:
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
	all.Wait()
	settle(t, c, 1)
	if served.Load() != 1 || len(p.Generations()) != 1 {
		t.Errorf("%d served, %d calls", served.Load(), len(p.Generations()))
	}
	gateways[0].AssertSound(t)
	for i := range gateways {
		if gateways[i].Kill(); i == 0 {
			continue
		}
		gateways[i] = gateway.Run(t, options[i])
		if got := pm.send(t, gateways[i], chatBody(false)); got.Status != http.StatusConflict {
			t.Errorf("after a restart: %d %s", got.Status, got.Body)
		}
	}
	settle(t, c, 1)
	gateways[1].AssertSound(t)
}

// pair is two gateways on one ledger, with the options to start each of them again. They have a state of their own each, and the same pepper.
func pair(t *testing.T, c *chain, p *fake.Server, ledger string) (gateways [2]*gateway.Gateway, options [2]gateway.Options) {
	t.Helper()
	for i := range gateways {
		options[i] = gateway.Options{
			Config: c.config("") + "store: {ledger: '" + ledger + "'}\n", NoKey: i > 0, Home: proctest.Dir(t),
			Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
		}
		if strings.HasPrefix(ledger, "postgres") {
			options[i].DataPath = "extproc" // with the other one, a ledger is a file
		}
		if i > 0 {
			copyPepper(t, gateways[0].Home, options[i].Home)
		}
		gateways[i] = gateway.Run(t, options[i])
		options[i].NoKey = true
	}
	return gateways, options
}

// copyPepper makes what one gateway has signed another one's own. Where the ledger is a file, the pepper lies beside it.
func copyPepper(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(from, "pepper"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "pepper"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestX07PricesAreLimitedPerAddress, as is everything else of callers who are not known.
func TestX07PricesAreLimitedPerAddress(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		Config:    c.config("")[len("limits: {rpm: 0}\n"):],
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
	})
	seen := map[int]int{}
	for i := range 130 {
		body := `{"model":"m","max_tokens":` + strconv.Itoa(i+1) + `,"messages":[{"role":"user","content":"Hello"}]}`
		seen[g.Do(t, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: body}).Status]++
	}
	if seen[http.StatusPaymentRequired] < 100 || seen[http.StatusTooManyRequests] == 0 || len(seen) != 2 {
		t.Errorf("answered %v", seen)
	}
	if len(p.Generations()) != 0 {
		t.Error("the provider was called")
	}
}
