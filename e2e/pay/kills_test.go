package pay

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// How often a gateway that takes payments is killed: in every run of the tests, and in a soak (make soak).
const (
	usualKills = 20
	soakKills  = 200
	killLanes  = 2
)

// TestPitfall30KilledAgainAndAgain kills the gateway at every state of a payment, and at random moments, by both schemes. Each time the books are sound, and
// what was answered is charged. In the end every payment was moved once, and nothing is reserved.
func TestPitfall30KilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	kills := usualKills
	if os.Getenv("BARDO_SOAK") != "" {
		kills = soakKills
	}
	for lane := range killLanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			killAgain(t, lane, kills, "", os.Getenv("BARDO_DATA_PATH"))
		})
	}
}

// TestPitfall30KilledAgainAndAgainInPostgreSQL does the same with the ledger and its payments in PostgreSQL.
func TestPitfall30KilledAgainAndAgainInPostgreSQL(t *testing.T) {
	t.Parallel()
	kills := usualKills
	if os.Getenv("BARDO_SOAK") != "" {
		kills = soakKills
	}
	for lane := range killLanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			killAgain(t, lane, kills, "store: {ledger: '"+postgrestest.URL(t)+"'}\n", "extproc")
		})
	}
}

// killAgain is a lane's part of all kills.
func killAgain(t *testing.T, lane, kills int, store, shape string) {
	t.Helper()
	k := newKiller(t, uint64(lane), store, shape)
	for round := range kills / killLanes {
		k.round(lane + round*killLanes)
	}
	k.finish()
}

// killer is a chain, a provider, and the gateway between them, which is killed and started again.
type killer struct {
	*testing.T
	random   *rand.Rand
	c        *chain
	n        *node
	p        *fake.Server
	g        *gateway.Gateway
	options  gateway.Options
	moved    int64 // that the payments so far come to
	payments int
}

func newKiller(t *testing.T, seed uint64, store, shape string) *killer {
	t.Helper()
	c := startChain(t).withUpTo(t)
	n := startNode(t, c)
	k := &killer{T: t, random: rand.New(rand.NewPCG(seed, 30)), c: c, n: n, p: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}
	k.p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	k.options = gateway.Options{
		Config: n.through(c).config(", bump_after: 2s") + store, DataPath: shape,
		Providers: []gateway.Provider{{ID: "own", Fake: k.p, Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 40}"}}}},
	}
	k.g = gateway.Run(t, k.options)
	k.options.Home, k.options.NoKey = k.g.Home, true
	return k
}

// killStates are when the gateway is killed: what the node does not answer from then on. "" is the provider's answer, and "any" a random moment.
var killStates = []string{"", "eth_estimateGas", "eth_sendRawTransaction", "eth_getTransactionReceipt", "any"}

// round pays once, kills the gateway meanwhile or afterwards, starts it again, and sends the same payment again.
func (k *killer) round(number int) {
	k.Helper()
	state, answered := killStates[number%len(killStates)], make(chan gateway.Answer, 1)
	pm := k.payment(number/len(killStates)%2 == 0)
	k.arm(state)
	ctx, cancel := context.WithCancel(k.Context())
	defer cancel()
	go func() { answered <- k.send(ctx, pm) }()
	k.await(state)
	k.g.Kill()
	first := <-answered
	k.n.refused.Clear()
	k.p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 50}})
	k.g = gateway.Run(k.T, k.options)
	k.again(state, pm, first)
	k.g.AssertSound(k.T)
}

// payment is the next one, of the exact amount or of what it costs.
func (k *killer) payment(exact bool) *payment {
	k.Helper()
	q := ask(k.T, k.g, chatBody(true))
	for len(q.Accepts) < 2 { // a node that did not answer at the start is asked again, for what upto needs
		pause(k.T, 100*time.Millisecond)
		q = ask(k.T, k.g, chatBody(true))
	}
	if exact {
		q.Accepts = q.Accepts[1:]
		pm := accept(k.T, q).sign(k.T)
		k.moved, k.payments = k.moved+pm.Value, k.payments+1
		return pm
	}
	k.moved, k.payments = k.moved+usualCost+1000, k.payments+1
	return acceptUpTo(k.T, q).sign(k.T)
}

// arm has the gateway stop at a state.
func (k *killer) arm(state string) {
	k.n.refusals.Store(0)
	k.p.Forget()
	switch state {
	case "":
		k.p.Behave(fake.Behaviour{FirstToken: time.Minute})
	case "any":
	default:
		k.n.refused.Store(state, true)
	}
}

// await waits until the gateway is at the state.
func (k *killer) await(state string) {
	k.Helper()
	switch state {
	case "":
		if _, err := k.p.WaitGenerations(k.Context(), 1); err != nil {
			k.Fatal(err)
		}
	case "any":
		pause(k.T, time.Duration(k.random.IntN(300))*time.Millisecond)
	default:
		for i := 0; k.n.refusals.Load() == 0; i++ {
			if i > 1000 {
				k.Fatalf("the gateway never got as far as %s", state)
			}
			pause(k.T, 20*time.Millisecond)
		}
	}
}

// send sends a payment to a gateway that may end meanwhile; then the status is 0.
func (k *killer) send(ctx context.Context, pm *payment) (a gateway.Answer) {
	res, err := k.g.Open(ctx, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: chatBody(true), Header: []string{pm.header()}})
	if err != nil {
		return a
	}
	defer res.Body.Close()
	var text strings.Builder
	b := make([]byte, 1<<12)
	for err == nil {
		var n int
		n, err = res.Body.Read(b)
		text.Write(b[:n])
	}
	if strings.Contains(text.String(), "[DONE]") { // the end, before which its charge is durable
		a.Status, a.Header = res.StatusCode, res.Header
	}
	return a
}

// again sends the payment once more: what was served is not served again, and what was not can be.
func (k *killer) again(state string, pm *payment, first gateway.Answer) {
	k.Helper()
	got := pm.send(k.T, k.g, chatBody(true))
	switch {
	case got.Status != http.StatusOK && got.Status != http.StatusConflict:
		k.Fatalf("killed at %q: %d %s", state, got.Status, got.Body)
	case first.Status == http.StatusOK && got.Status == http.StatusOK:
		k.Errorf("killed at %q: served twice", state)
	case state == "" && got.Status != http.StatusOK:
		k.Errorf("nothing was served, and the payment is used: %d %s", got.Status, got.Body)
	case first.Status != http.StatusOK:
		return
	}
	var v invoice
	record := k.g.Do(k.T, gateway.Call{Method: http.MethodGet, NoKey: true, Path: "/v1/requests/" + first.Header.Get("X-Request-Id")})
	if record.Status != http.StatusOK {
		k.Errorf("killed at %q: the answer's record is %d", state, record.Status)
		return
	}
	if record.JSON(k.T, &v); v.Cost != "0.003000" {
		k.Errorf("killed at %q: an answer was charged %s", state, v.Cost)
	}
}

// finish waits until all is settled: each payment was moved once, the ledger has the same sums, and nothing is reserved.
func (k *killer) finish() {
	k.Helper()
	settle(k.T, k.c, k.payments)
	if got := k.c.received(k.T); got != k.moved {
		k.Errorf("%d arrived, want %d", got, k.moved)
	}
	wallet := "wallet_" + strings.ToLower(addressOf(payerKey).Hex()[2:])
	if want, got := k.moved-int64(k.payments)*(usualCost+1000), creditOf(k.T, k.g, wallet); got != want {
		k.Errorf("the wallet has a credit of %d, want %d", got, want)
	}
	var b struct {
		Held json.Number `json:"held_usd"`
	}
	if out := k.g.Bardo(k.T, "balance", wallet, "--json"); json.Unmarshal([]byte(out), &b) != nil || b.Held != "0.000000" {
		k.Errorf("the wallet's money is reserved: %s", out)
	}
	k.g.AssertSound(k.T)
}
