package pay

import (
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// TestPitfall10ManyWalletsCannotTakeMoreThanTheBound: once the payments of some wallets cannot be moved, another wallet, which owes nothing, is served when its payment has arrived. The bound ends
// when the others' payments arrive.
func TestPitfall10ManyWalletsCannotTakeMoreThanTheBound(t *testing.T) {
	t.Parallel()
	c, n, p := startPlace(t)
	c.withUpTo(t)
	config := n.through(c).config(fmt.Sprintf(", max_losses_usd_hour: %f", float64(2*usualCost)/1e6))
	g := gateway.Run(t, gateway.Options{Config: config, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}}})
	upTo := acceptUpTo(t, ask(t, g, chatBody(true))).sign(t)
	n.refused.Store("eth_estimateGas", true) // nothing is moved before the wallets are empty
	var empty []*thief
	for i := range 2 {
		w := newThief(t, c, n, keyOf(i))
		if got := w.price(g).send(t, g, chatBody(true)); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		from := addressOf(w.key)
		c.Do(t, nil, "anvil_impersonateAccount", from)
		c.Do(t, nil, "anvil_setBalance", from, hexutil.EncodeBig(big.NewInt(1e18)))
		c.Send(t, from, &c.Token, call("transfer(address,uint256)", []byte{0xdd}, big.NewInt(c.balance(t, from)).Bytes()))
		empty = append(empty, w)
	}
	n.refused.Clear()
	polltest.Until(t, "the bound", func() bool { return g.Metrics(t).Sum("bardo_payment_losses_bound") == 1 })
	if lost := g.Metrics(t).Sum("bardo_payment_losses_micro_usd"); lost != 2*usualCost {
		t.Errorf("%v were lost", lost)
	}
	if late := upTo.send(t, g, chatBody(true)); late.Status != http.StatusTooManyRequests || late.Header.Get("Retry-After") == "" || !strings.Contains(late.Body, "scheme exact") {
		t.Errorf("scheme upto: %d, again in %q: %s", late.Status, late.Header.Get("Retry-After"), late.Body)
	}
	if q := ask(t, g, chatBody(true)); len(q.Accepts) != 1 || q.Accepts[0].Scheme != "exact" {
		t.Errorf("the ways to pay are %+v", q.Accepts)
	}
	third := newThief(t, c, n, keyOf(2))
	got := third.price(g).send(t, g, chatBody(true))
	if arrived := c.transfers(t); got.Status != http.StatusOK || arrived != 1 {
		t.Errorf("%d with %d transfers: %s", got.Status, arrived, got.Body)
	}
	for _, w := range empty {
		c.mint(t, addressOf(w.key), 1_000_000)
	}
	settle(t, c, 3)
	polltest.Until(t, "the end of the bound", func() bool { return g.Metrics(t).Sum("bardo_payment_losses_bound") == 0 })
	g.AssertSound(t)
}

// keyOf is the private key of a wallet.
func keyOf(i int) string { return strings.Repeat("0", 63) + strconv.Itoa(i+3) }
