package pay

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/seedtest"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// TestRandomPaymentsConserveMoney sends random payments, most of which are wrong or odd in something, with random requests, to two gateways on one ledger, one of each shape of the data
// path. What is wrong is refused in the caller's format, nothing is served without its payment, each authorization is moved once at most, and what is on the chain is what is in the
// books. BARDO_SOAK=1 makes it longer; BARDO_SEED is the one seed to repeat.
func TestRandomPaymentsConserveMoney(t *testing.T) {
	t.Parallel()
	for i, l := range lanes {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range seedtest.Seeds(30) {
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { haggle(t, l, rand.New(rand.NewPCG(seed, uint64(i)))) })
			}
		})
	}
}

// lane is a way in which payments are settled.
type lane struct {
	name        string
	deals       int
	config      string // more of billing.x402
	node        bool   // that does not always answer
	facilitator bool   // that does not always do what it says
	postgres    bool   // has the books, and both gateways have the same shape
}

var lanes = []lane{
	{name: "usual", deals: 48},
	{name: "settled first", deals: 24, config: ", settle_first_usd: 0.000001"},
	{name: "a moody node", deals: 24, node: true},
	{name: "a moody facilitator", deals: 24, facilitator: true},
	{name: "PostgreSQL", deals: 24, config: ", settle_first_usd: 0.02", postgres: true},
}

// market is two gateways, and the purses that pay them.
type market struct {
	*testing.T
	c        *chain
	gateways [2]*gateway.Gateway
	purses   []*purse
	lane     lane
	moods    []*moody
	spent    string // a key that pays
	idle     string // a key that is sent beside payments, and pays for nothing

	mu   sync.Mutex
	sent []sending
}

// purse is a wallet.
type purse struct {
	key     string // of the account, or of the contract's owner
	address common.Address
	minted  int64
	thief   bool // it is emptied after its payment was taken
	odd     bool // a contract, which decides by itself which signatures are its own
}

func (p *purse) account() string { return "wallet_" + strings.ToLower(p.address.Hex()[2:]) }

// sending is a request as it was sent, and its answer.
type sending struct {
	d       *deal
	pm      *payment
	at      int
	got     gateway.Answer
	refused bool // it has to be
}

func haggle(t *testing.T, l lane, r *rand.Rand) {
	t.Helper()
	deals := make([]*deal, l.deals)
	for i := range deals {
		deals[i] = newDeal(r, i)
	}
	m := openMarket(t, l, r, deals)
	hands := make(chan struct{}, 6)
	var all sync.WaitGroup
	for _, d := range deals {
		hands <- struct{}{}
		all.Go(func() {
			defer func() { <-hands }()
			m.strike(d)
		})
	}
	all.Wait()
	for _, f := range m.moods {
		f.on.Store(false)
	}
	for i := range m.sent {
		m.check(&m.sent[i])
	}
	m.close()
}

// openMarket starts what the deals need: a provider for each, so that none disturbs another's health.
func openMarket(t *testing.T, l lane, r *rand.Rand, deals []*deal) *market {
	t.Helper()
	m := &market{T: t, c: startChain(t).withUpTo(t), lane: l}
	m.fill()
	model := func(id string) []gateway.Model { return []gateway.Model{{ID: id, Price: "{input: 10, output: 40}"}} }
	dear := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "dear"})
	providers := []gateway.Provider{{ID: "dear", Fake: dear, Models: []gateway.Model{{ID: "dear", Price: "{input: 100, output: 400}"}}}}
	for i, d := range deals {
		p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: fmt.Sprint("p", i)})
		p.Behave(d.behaviour)
		providers = append(providers, gateway.Provider{ID: fmt.Sprint("p", i), Fake: p, Models: model(fmt.Sprint("m", i))})
	}
	config := m.config(r)
	for i, shape := range []string{"extproc", "module"} {
		home := proctest.Dir(t)
		if i > 0 {
			copyPepper(t, m.gateways[0].Home, home)
		}
		if l.postgres {
			shape = "extproc" // with the other one, a ledger is a file
		}
		m.gateways[i] = gateway.Run(t, gateway.Options{Config: config, DataPath: shape, NoKey: i > 0, Home: home, Providers: providers})
	}
	m.spent = m.gateways[0].CreateKey(t, "--name", "spent", "--balance-usd", "10").Key
	m.idle = m.gateways[0].CreateKey(t, "--name", "idle", "--balance-usd", "10").Key
	return m
}

// config is that of both gateways.
func (m *market) config(r *rand.Rand) string {
	c := m.c
	if m.lane.node {
		n := startMoodyNode(m.T, r, c)
		m.moods = append(m.moods, n)
		c = (&node{URL: n.URL}).through(c)
	}
	text := strings.Replace(c.config(", bump_after: 2s"+m.lane.config), "settle_wait: 20s", "settle_wait: 2s", 1)
	if m.lane.facilitator {
		f := startCashier(m.T, r, c)
		m.moods = append(m.moods, f)
		text = strings.Replace(text, fmt.Sprintf("settlement_key: '%s'", settlerKey), fmt.Sprintf("facilitator: '%s'", f.URL), 1)
	}
	store := "sqlite://" + filepath.Join(m.TempDir(), "shared.db")
	if m.lane.postgres {
		store = postgrestest.URL(m.T)
	}
	return text + "store: {ledger: '" + store + "'}\n"
}

// fill makes the purses: two that have all, one that has little, one without an approval, a contract, and a thief's.
func (m *market) fill() {
	for i, minted := range []int64{1e9, 1e9, 25_000, 1e9, 1e9, 1e8} {
		p := &purse{key: common.Bytes2Hex(crypto.Keccak256(fmt.Append(nil, "purse ", i))), thief: i == 5, odd: i == 4, minted: minted}
		if p.address = addressOf(p.key); p.odd {
			p.address = m.c.Deploy(m.T, "SmartWallet", common.LeftPadBytes(p.address[:], 32))
		}
		m.c.mint(m.T, p.address, minted)
		m.c.Do(m.T, nil, "anvil_impersonateAccount", p.address)
		m.c.Do(m.T, nil, "anvil_setBalance", p.address, hexutil.EncodeBig(big.NewInt(1e18)))
		if i != 3 {
			m.c.Send(m.T, p.address, &m.c.Token, call("approve(address,uint256)", common.FromHex(permit2), big.NewInt(1e15).Bytes()))
		}
		m.purses = append(m.purses, p)
	}
}

// request is what a deal asks for; other is what of it is not as it was quoted.
func (d *deal) request(other string) gateway.Call {
	model, most, say := fmt.Sprint("m", d.number), d.most, fmt.Sprint("This is deal ", d.number)
	switch other {
	case "longer":
		most, say = most*7, strings.Repeat(say+". ", 400)
	case "another model":
		model = "dear"
	case "another body":
		say += ", another one"
	}
	c := gateway.Call{NoKey: true}
	if other == "header" {
		c.Header = []string{"X-Bardo-Subsystem: risk"}
	}
	switch d.dialect {
	case "chat":
		c.Path, c.Body = "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"max_tokens":%d,"stream":%v,"messages":[{"role":"user","content":%q}]}`, model, most, d.stream, say)
	case "messages":
		c.Path, c.Body = "/v1/messages", fmt.Sprintf(`{"model":%q,"max_tokens":%d,"stream":%v,"messages":[{"role":"user","content":%q}]}`, model, most, d.stream, say)
		c.Header = append(c.Header, "anthropic-version: 2023-06-01")
	case "responses":
		c.Path, c.Body = "/v1/responses", fmt.Sprintf(`{"model":%q,"max_output_tokens":%d,"stream":%v,"input":%q}`, model, max(most, 16), d.stream, say)
	case "completions":
		c.Path, c.Body = "/v1/completions", fmt.Sprintf(`{"model":%q,"max_tokens":%d,"stream":%v,"prompt":%q}`, model, most, d.stream, say)
	case "gemini":
		c.Path = "/v1beta/models/" + model + map[bool]string{false: ":generateContent", true: ":streamGenerateContent?alt=sse"}[d.stream]
		c.Body = fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%q}]}],"generationConfig":{"maxOutputTokens":%d}}`, say, most)
	}
	if other == "path" && d.dialect != "gemini" {
		c.Path += "?x=1"
	}
	return c
}

// strike asks for the price, makes the payment, and sends it.
func (m *market) strike(d *deal) {
	r := rand.New(rand.NewPCG(d.seed, 0))
	at := r.IntN(2)
	if d.key == "alone" {
		c := d.request("")
		c.NoKey, c.Key = false, m.spent
		m.note(sending{d: d, at: at, got: m.gateways[at].Do(m.T, c)})
		return
	}
	pm := m.offer(r, d, at)
	if pm == nil {
		return
	}
	c := d.request(d.other)
	c.Header = append(c.Header, d.headers(m.T, r, pm)...)
	if d.key == "beside" {
		c.NoKey, c.Key = false, m.idle
	}
	if d.dialect == "messages" && d.key == "beside" {
		c.Header = append(c.Header, "X-Api-Key: "+m.idle)
	}
	m.carry(r, d, pm, at, c)
	if p := m.purses[d.purse]; p.thief && r.IntN(2) == 0 {
		m.flee(p, int64(r.IntN(20_000)))
	}
}

// flee empties a purse but for a little.
func (m *market) flee(p *purse, little int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if has := m.c.balance(m.T, p.address); has > little {
		m.c.Send(m.T, p.address, &m.c.Token, call("transfer(address,uint256)", []byte{0xdd}, big.NewInt(has-little).Bytes()))
	}
}

// offer is the deal's payment for the price that a gateway says.
func (m *market) offer(r *rand.Rand, d *deal, at int) *payment {
	p, c := m.purses[d.purse], d.request("")
	if d.named {
		c.Header = append(c.Header, "X-Bardo-Wallet: "+p.address.Hex())
	}
	got := m.gateways[at].Do(m.T, c)
	var q quote
	if text, err := base64.StdEncoding.DecodeString(got.Header.Get("Payment-Required")); got.Status != http.StatusPaymentRequired || err != nil || json.Unmarshal(text, &q) != nil || len(q.Accepts) == 0 {
		m.Errorf("%s\nno price: %d %s", d, got.Status, got.Body)
		return nil
	}
	i := slices.IndexFunc(q.Accepts, func(a requirement) bool { return (a.Scheme == "upto") == d.upTo })
	if i < 0 { // while too many payments do not arrive
		i, d.upTo = 0, false
	}
	q.Accepts = q.Accepts[i:]
	pm := accept(m.T, q)
	pm.Version, pm.Key, pm.From, pm.UpTo = d.version, p.key, p.address, d.upTo
	if pm.UpTo {
		pm.Spender, pm.Facilitator = common.HexToAddress(upToProxy), common.HexToAddress(pm.Accepted.Extra.Facilitator)
	}
	for i := range d.changes {
		if c := &d.changes[i]; c.early != nil {
			c.early(r, pm)
		}
	}
	pm.sign(m.T)
	for i := range d.changes {
		if c := &d.changes[i]; c.late != nil && len(pm.Signature) >= 65 {
			c.late(r, pm)
		}
	}
	return pm
}

// carry sends a request in the deal's way.
func (m *market) carry(r *rand.Rand, d *deal, pm *payment, at int, c gateway.Call) {
	elsewhere := c
	elsewhere.Body = d.request("another body").Body
	one := func(at int, c gateway.Call) {
		m.note(sending{d: d, pm: pm, at: at, got: m.gateways[at].Do(m.T, c), refused: d.wrong()})
	}
	switch d.way {
	case "once":
		one(at, c)
	case "again":
		one(at, c)
		one(at, c)
	case "again elsewhere":
		one(at, c)
		one(1-at, c)
	case "with another body":
		one(at, c)
		one(at, elsewhere)
	case "parallel", "parallel with other bodies":
		var all sync.WaitGroup
		for i := range 6 {
			it := c
			if i%3 == 2 && d.way != "parallel" {
				it = elsewhere
			}
			all.Go(func() { one(i%2, it) })
		}
		all.Wait()
	case "leave", "leave late":
		m.note(sending{d: d, pm: pm, at: at, got: m.leave(m.gateways[at], c, time.Duration(r.IntN(200))*time.Millisecond, d.way == "leave late"), refused: d.wrong()})
	}
}

// leave sends a request, and goes away after a time, or once something of the answer has come.
func (m *market) leave(g *gateway.Gateway, c gateway.Call, after time.Duration, late bool) (a gateway.Answer) {
	ctx, cancel := context.WithTimeout(m.Context(), time.Minute)
	defer cancel()
	if !late {
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	}
	a.Err = errors.New("the client left")
	res, err := g.Open(ctx, c)
	if err != nil {
		return a
	}
	defer func() { _ = res.Body.Close() }()
	a.Status, a.Header = res.StatusCode, res.Header
	b := make([]byte, 64)
	n, _ := io.ReadFull(res.Body, b)
	a.Body = string(b[:n])
	return a
}

func (m *market) note(s sending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, s)
}
