package pay

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// lostEach is what a payment that never arrived costs: its request, and the fee.
const lostEach = usualCost + 1000

// thief is a wallet whose payments do not arrive.
type thief struct {
	*testing.T
	c      *chain
	n      *node
	key    string
	Wallet string // its account
	later  int64  // how far the chain's clock was moved
}

func newThief(t *testing.T, c *chain, n *node, key string) *thief {
	t.Helper()
	c.mint(t, addressOf(key), 1_000_000)
	return &thief{T: t, c: c, n: n, key: key, Wallet: "wallet_" + strings.ToLower(addressOf(key).Hex()[2:])}
}

// startPlace starts what a thief needs: a chain, a node whose answers can be refused, and a provider whose answers cost usualCost.
func startPlace(t *testing.T) (*chain, *node, *fake.Server) {
	t.Helper()
	c := startChain(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	return c, startNode(t, c), p
}

// startRobbed starts two gateways on one ledger, and a thief who owes them for some payments, and has money again.
func startRobbed(t *testing.T, ledger string, payments int) ([2]*gateway.Gateway, *thief) {
	t.Helper()
	c, n, p := startPlace(t)
	gateways, _ := pair(t, n.through(c), p, ledger)
	w := newThief(t, c, n, payerKey)
	w.steal(payments, gateways[:]...)
	wantOwed(t, gateways[0], w.Wallet, int64(payments)*lostEach)
	c.mint(t, addressOf(w.key), 1_000_000)
	return gateways, w
}

// price is a payment of the price that a gateway tells this wallet.
func (w *thief) price(g *gateway.Gateway) *payment {
	w.Helper()
	q := ask(w.T, g, chatBody(true), "X-Bardo-Wallet: "+addressOf(w.key).Hex())
	q.Accepts = q.Accepts[len(q.Accepts)-1:] // scheme exact
	pm := accept(w.T, q)
	pm.Key, pm.From = w.key, addressOf(w.key)
	pm.ValidBefore += w.later
	return pm.sign(w.T)
}

// escape empties the wallet, and lets its payments expire before the node moves any.
func (w *thief) escape() {
	w.Helper()
	from := addressOf(w.key)
	w.c.Do(w.T, nil, "anvil_impersonateAccount", from)
	w.c.Do(w.T, nil, "anvil_setBalance", from, hexutil.EncodeBig(big.NewInt(1e18)))
	w.c.Send(w.T, from, &w.c.Token, call("transfer(address,uint256)", []byte{0xdd}, big.NewInt(w.c.balance(w.T, from)).Bytes()))
	w.c.Do(w.T, nil, "evm_increaseTime", 2000)
	w.c.Do(w.T, nil, "evm_mine")
	w.later += 2000
}

// steal is served for some payments at some gateways, none of which arrives.
func (w *thief) steal(count int, gateways ...*gateway.Gateway) {
	w.Helper()
	w.n.refused.Store("eth_estimateGas", true) // nothing is moved yet
	for i := range count {
		g := gateways[i%len(gateways)]
		if got := w.price(g).send(w.T, g, chatBody(true)); got.Status != http.StatusOK {
			w.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	w.escape()
	w.n.refused.Clear()
}

// TestPitfall10AThiefPaysForWhatNeverArrived once, with two payments at the same time at two gateways on one store.
func TestPitfall10AThiefPaysForWhatNeverArrived(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) { //nolint:thelper // it is the test
		gateways, w := startRobbed(t, store, 3)
		var both sync.WaitGroup
		var paid int64
		for _, g := range gateways {
			pm := w.price(g)
			paid += pm.Value
			both.Go(func() {
				if got := pm.send(t, g, chatBody(true)); got.Status != http.StatusOK {
					t.Errorf("%d %s", got.Status, got.Body)
				}
			})
		}
		both.Wait()
		settle(t, w.c, 2)
		if got := w.c.received(t); got != paid {
			t.Errorf("%d arrived, want %d", got, paid)
		}
		polltest.Until(t, "the loss is taken once", func() bool {
			has, owed := moneyOf(t, gateways[1], w.Wallet)
			return has == paid-5*lostEach && owed == 0
		})
		for _, g := range gateways {
			g.AssertSound(t)
		}
	})
}

// TestPitfall16AReorganisedPaymentForALoss: the payment that paid for what never arrived is taken out of the chain, and never arrives either. Its wallet owes both.
func TestPitfall16AReorganisedPaymentForALoss(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	n := startNode(t, c)
	g, _ := serve(t, n.through(c), "")
	w := newThief(t, c, n, payerKey)
	w.steal(1, g)
	wantOwed(t, g, w.Wallet, lostEach)
	c.mint(t, addressOf(w.key), 1_000_000)
	second := w.price(g)
	if got := second.send(t, g, chatBody(true)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
	wantOwed(t, g, w.Wallet, 0)
	for _, m := range []string{"eth_estimateGas", "eth_sendRawTransaction"} {
		n.refused.Store(m, true)
	}
	c.Do(t, nil, "anvil_rollback", 1)
	c.Do(t, nil, "anvil_dropAllTransactions")
	w.escape()
	n.refused.Clear()
	wantOwed(t, g, w.Wallet, 2*lostEach)
	settle(t, c, 0)
	c.mint(t, addressOf(w.key), 1_000_000)
	third := w.price(g)
	if got := third.send(t, g, chatBody(true)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
	polltest.Until(t, "both losses are paid", func() bool {
		has, owed := moneyOf(t, g, w.Wallet)
		return has == third.Value-3*lostEach && owed == 0
	})
	g.AssertSound(t)
}

// TestPitfall30KilledWhileALossIsTaken: the gateway is killed at a random moment while payments of a wallet that never arrived are taken back, and again while
// a payment pays for them. The wallet has what it paid less what it used, losses included, and the books are sound.
func TestPitfall30KilledWhileALossIsTaken(t *testing.T) {
	t.Parallel()
	for lane, store := range []string{"SQLite", "PostgreSQL"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c, n, p := startPlace(t)
			o := gateway.Options{
				Config: n.through(c).config(", bump_after: 2s"), Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
			}
			if store == "PostgreSQL" {
				o.Config += "store: {ledger: '" + postgrestest.URL(t) + "'}\n"
				o.DataPath = "extproc"
			}
			g := gateway.Run(t, o)
			o.Home, o.NoKey = g.Home, true
			rounds := 2
			if os.Getenv("BARDO_SOAK") != "" {
				rounds = 20
			}
			random := rand.New(rand.NewPCG(uint64(lane), 10))
			later := int64(0)
			for round := range rounds {
				w := newThief(t, c, n, common.Bytes2Hex(crypto.Keccak256(fmt.Append(nil, "thief ", lane, round))))
				w.later = later
				g = w.killed(g, o, random)
				later = w.later
			}
			settle(t, c, rounds)
			g.AssertSound(t)
		})
	}
}

// killed is one round: the gateway that runs afterwards.
func (w *thief) killed(g *gateway.Gateway, o gateway.Options, random *rand.Rand) *gateway.Gateway {
	w.Helper()
	w.steal(2, g)
	pause(w.T, time.Duration(random.IntN(5000))*time.Millisecond) // the loss is written after three seconds
	g.Kill()
	g = gateway.Run(w.T, o)
	g.AssertSound(w.T)
	wantOwed(w.T, g, w.Wallet, 2*lostEach)
	w.c.mint(w.T, addressOf(w.key), 1_000_000)
	pm := w.price(g)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := g.Open(w.Context(), gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: chatBody(true), Header: []string{pm.header()}}); err == nil {
			_ = res.Body.Close()
		}
	}()
	pause(w.T, time.Duration(random.IntN(1500))*time.Millisecond)
	g.Kill()
	<-ended
	g = gateway.Run(w.T, o)
	polltest.Until(w.T, "the payment has arrived", func() bool { // the one that was killed may have it for a moment
		got := pm.send(w.T, g, chatBody(true))
		if got.Status != http.StatusOK && got.Status != http.StatusConflict {
			w.Fatalf("%d %s", got.Status, got.Body)
		}
		return got.Status == http.StatusOK || settlementOf(w.T, got).Success
	})
	left := pm.Value - 2*lostEach
	polltest.Until(w.T, "the losses are paid", func() bool {
		has, owed := moneyOf(w.T, g, w.Wallet)
		return owed == 0 && (has == left-lostEach || has == left) // the payment may have arrived while no gateway ran, and served nothing: then it has no fee
	})
	g.AssertSound(w.T)
	return g
}
