package staking

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"bardo.money/gateway/e2e/anvil"
	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

const admin = "sk-fake-venice-admin"

// lab is a gateway whose key at Venice follows a position on a chain, with another provider beside.
type lab struct {
	*gateway.Gateway

	chain         *anvil.Chain
	contract      common.Address
	venice, other *fake.Server
	events        string
	agent         gateway.NewKey // says the phases
}

// wallet holds the position. Only its address is known.
var wallet = common.HexToAddress("0x00000000000000000000000000000000000057a4")

// open starts a chain with a position, and the providers.
func open(t *testing.T, vvv int64) *lab {
	t.Helper()
	l := &lab{
		chain: anvil.Start(t, "contracts/contracts.json"), venice: fake.Start(t, fake.Config{Vendor: fake.Venice, Admin: admin}), other: fake.Start(t, fake.Config{Dialect: fake.OpenAI}),
		events: filepath.Join(t.TempDir(), "events.jsonl"),
	}
	l.contract = l.chain.Deploy(t, "StakedVVV")
	l.stake(t, "stake", vvv)
	return l
}

// stake changes the position by whole VVV.
func (l *lab) stake(t *testing.T, method string, vvv int64) {
	t.Helper()
	data := crypto.Keccak256([]byte(method + "(address,uint256)"))[:4]
	data = append(data, common.LeftPadBytes(wallet[:], 32)...)
	amount := new(big.Int).Mul(big.NewInt(vvv), big.NewInt(1_000_000_000_000_000_000))
	data = append(data, common.LeftPadBytes(amount.Bytes(), 32)...)
	l.chain.Send(t, anvil.Address(anvil.Key(anvil.Key0)), &l.contract, data)
}

// options are those of a gateway: 2 credits per VVV, and 0.05 USD per credit. interval is how often the position is read.
func (l *lab) options(interval, phaseFrom string) gateway.Options {
	return gateway.Options{
		Config: fmt.Sprintf(`limits: {rpm: 0}
routing: {ping_interval: 1h}
telemetry: {events: "file:%s"}
inference: {provider_mode: both}
providers:
  order: [venice, other]
  venice:
    base_url: %q
    api_key: sk-of-the-operator
    creditRatePerVvv: 2
    dailyUsdcRate: 0.05
    staking: {network: base-sepolia, rpc: %q, contract: %q, wallet: %q, admin_key: %s, interval: %s, phase_from: %q}
    models: [{id: deep, quality: high, price: {input: 1, output: 2}, capabilities: [tools, structured_outputs, tee_attested]}]
  custom: [{id: other, endpoints: [%q], api_key: %s, models: [{id: deep, quality: high, price: {input: 1, output: 2}, capabilities: [tools, structured_outputs]}]}]
`, l.events, l.venice.URL, l.chain.URL, l.contract.Hex(), wallet.Hex(), admin, interval, phaseFrom, l.other.URL, l.other.Key),
	}
}

// start starts it, and has it follow the phases of a key of its own.
func start(t *testing.T, vvv int64, interval string) *lab {
	t.Helper()
	l := open(t, vvv)
	l.Gateway = gateway.Run(t, l.options(interval, ""))
	l.agent = l.CreateKey(t, "--name", "agent")
	l.Configure(t, l.options(interval, l.agent.ID))
	if err := l.Reload(); err != nil {
		t.Fatal(err)
	}
	return l
}

// ask sends a request with headers.
func (l *lab) ask(t *testing.T, key string, header ...string) gateway.Answer {
	t.Helper()
	return l.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key, Header: header, Body: `{"model":"deep","max_tokens":20,"messages":[{"role":"user","content":"Hello"}]}`})
}

// trade sends a task that belongs into an enclave.
func (l *lab) trade(t *testing.T) gateway.Answer {
	t.Helper()
	return l.Do(t, gateway.Call{Path: "/v1/chat/completions", Header: []string{"X-Bardo-Task-Class: trade"}, Body: `{"model":"deep","max_tokens":20,"messages":[{"role":"user","content":"Hello"}],
"response_format":{"type":"json_schema","json_schema":{"name":"plan","strict":true,"schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}}`})
}

// only waits until the account has one key with a limit, and returns it.
func (l *lab) only(t *testing.T, usd float64) (k fake.Issued) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("one key with a limit of %v USD", usd), func() bool {
		keys := l.venice.Issued()
		if len(keys) != 1 || keys[0].USD != usd {
			return false
		}
		k = keys[0]
		return true
	})
	if k.DIEM != usd || k.Period != "EPOCH" || !strings.HasPrefix(k.Description, "bardo staking ") {
		t.Errorf("%+v", k)
	}
	return k
}

// serves waits until private requests go to Venice with a key.
func (l *lab) serves(t *testing.T, key string) {
	t.Helper()
	polltest.Until(t, "a private request goes to Venice with its key", func() bool {
		if got := l.ask(t, "", "X-Bardo-Security-Class: private"); got.Status != http.StatusOK {
			return false
		}
		r, ok := l.venice.Last()
		return ok && r.Key() == key
	})
}

// told are the fields of the events of a kind.
func (l *lab) told(t *testing.T, kind string) (out []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(l.events)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e struct {
			Event string
			Data  map[string]any
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == kind {
			out = append(out, e.Data)
		}
	}
	return out
}

// says sends a request that says a phase, once the gateway listens to the key: it does when the reload is in force.
func (l *lab) says(t *testing.T, phase, action string) {
	t.Helper()
	before := len(l.told(t, "venice:key_changed"))
	polltest.Until(t, "the key is "+action+" in "+phase, func() bool {
		if got := l.ask(t, l.agent.Key, "X-Bardo-Phase: "+phase); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		all := l.told(t, "venice:key_changed")
		return len(all) > before && all[len(all)-1]["action"] == action && all[len(all)-1]["phase"] == phase
	})
}

// TestP11TheKeyFollowsTheStakeAndThePhases: 100 VVV give 200 credits, which are 10 USD a day. The limit is in the key itself; conservation and declining throttle
// it, terminal ends it, and a better phase brings another key.
func TestP11TheKeyFollowsTheStakeAndThePhases(t *testing.T) {
	t.Parallel()
	l := start(t, 100, "1s")
	first := l.only(t, 10)
	l.serves(t, first.Key)

	l.says(t, "conservation", "throttled")
	if k := l.only(t, 5); k.ID != first.ID {
		t.Errorf("another key: %+v", k)
	}
	if got := l.ask(t, "", "X-Bardo-Phase: terminal"); got.Status != http.StatusOK { // of a key that does not say phases
		t.Errorf("%d %s", got.Status, got.Body)
	}
	l.says(t, "declining", "throttled")
	if k := l.only(t, 1); k.ID != first.ID {
		t.Errorf("another key: %+v", k)
	}
	l.serves(t, first.Key)

	l.says(t, "terminal", "revoked")
	polltest.Until(t, "there is no key", func() bool { return len(l.venice.Issued()) == 0 })
	polltest.Until(t, "private requests have no provider", func() bool {
		got := l.ask(t, "", "X-Bardo-Security-Class: private")
		return got.Status == http.StatusServiceUnavailable && strings.Contains(got.Body, "no_private_provider")
	})
	sent := len(l.venice.Requests())
	if got := l.trade(t); got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "privacy_tier") {
		t.Errorf("a task of an enclave: %d %v %s", got.Status, got.Header, got.Body)
	}
	for _, r := range l.venice.Requests()[sent:] {
		if strings.HasSuffix(r.Path, "/chat/completions") {
			t.Error("Venice is asked without a key")
		}
	}

	l.says(t, "stable", "issued")
	second := l.only(t, 10)
	l.serves(t, second.Key)
	l.says(t, "thriving", "rotated")
	polltest.Until(t, "another key alone", func() bool {
		keys := l.venice.Issued()
		return len(keys) == 1 && keys[0].ID != second.ID && keys[0].USD == 10
	})
	l.serves(t, l.venice.Issued()[0].Key)

	var actions []any
	for _, e := range l.told(t, "venice:key_changed") {
		actions = append(actions, e["action"])
	}
	if !slices.Equal(actions, []any{"issued", "throttled", "throttled", "revoked", "issued", "rotated"}) {
		t.Errorf("%v", actions)
	}
	if e := l.told(t, "venice:stake_read")[0]; e["staked"] != "100000000000000000000" || e["credits"] != 200.0 || e["limit_usd"] != 10.0 || e["phase"] != "stable" {
		t.Errorf("%v", e)
	}
	l.checkSecrets(t, first.Key, second.Key)
}

// checkSecrets looks for credentials in what the gateway wrote.
func (l *lab) checkSecrets(t *testing.T, keys ...string) {
	t.Helper()
	written, err := os.ReadFile(l.events)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(keys, admin) {
		if strings.Contains(l.Log(), key) || strings.Contains(string(written), key) {
			t.Errorf("%s is written", key)
		}
	}
}

// TestP11WithTooLittleCreditVeniceIsNotUsed: below 100 credits the key is revoked, and tasks of enclaves go on elsewhere; with more VVV there is a key again.
func TestP11WithTooLittleCreditVeniceIsNotUsed(t *testing.T) {
	t.Parallel()
	l := start(t, 60, "1s")
	l.serves(t, l.only(t, 6).Key)
	l.stake(t, "stake", 20)
	l.only(t, 8)
	l.stake(t, "unstake", 31)
	polltest.Until(t, "there is no key", func() bool { return len(l.venice.Issued()) == 0 })
	polltest.Until(t, "a task of an enclave goes on elsewhere", func() bool {
		got := l.trade(t)
		return got.Status == http.StatusOK && strings.Contains(got.Header.Get("X-Bardo-Degraded"), "privacy_tier")
	})
	polltest.Until(t, "the event", func() bool { return len(l.told(t, "venice:credit_low")) > 0 })
	if e := l.told(t, "venice:credit_low"); len(e) != 1 || e[0]["credits"] != 98.0 || e[0]["min_credit"] != 100.0 {
		t.Errorf("%v", e)
	}
	l.stake(t, "stake", 1)
	l.serves(t, l.only(t, 5).Key)
}

// TestP11KeysOfEarlierProcessesAreDeleted: a restarted gateway makes a key and deletes its own earlier ones, and nobody else's; one that somebody deleted is made again.
func TestP11KeysOfEarlierProcessesAreDeleted(t *testing.T) {
	t.Parallel()
	l := open(t, 100)
	o := l.options("1s", "")
	l.Gateway = gateway.Run(t, o)
	first := l.only(t, 10)
	foreign := l.venice.Issue("of somebody")
	lost := l.venice.Issue(first.Description) // its answer never arrived
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	o.Home = l.Home
	l.Gateway = gateway.Run(t, o)
	var now fake.Issued
	polltest.Until(t, "the foreign key and a new one", func() bool {
		keys := l.venice.Issued()
		if len(keys) != 2 || keys[0] != foreign || keys[1].ID == lost.ID {
			return false
		}
		now = keys[1]
		return now.Description == first.Description
	})
	l.serves(t, now.Key)
	l.venice.Unissue(now.ID)
	l.stake(t, "stake", 100) // so that its limit is to change
	polltest.Until(t, "another key", func() bool {
		keys := l.venice.Issued()
		return len(keys) == 2 && keys[1].USD == 20
	})
	l.serves(t, l.venice.Issued()[1].Key)
}

// TestP11WhatIsKnownStaysWhereNobodyAnswers: while Venice's key API fails, the key that is in force stays; what was decided happens later.
func TestP11WhatIsKnownStaysWhereNobodyAnswers(t *testing.T) {
	t.Parallel()
	l := start(t, 100, "1s")
	first := l.only(t, 10)
	l.serves(t, first.Key)
	l.venice.BehaveOn("/api_keys", fake.Behaviour{Status: http.StatusInternalServerError})
	l.stake(t, "unstake", 20)
	polltest.Until(t, "the failure is logged", func() bool { return strings.Contains(l.Log(), "does not follow the staked VVV") })
	l.serves(t, first.Key)
	l.venice.BehaveOn("/api_keys", fake.Behaviour{})
	if k := l.only(t, 8); k.ID != first.ID {
		t.Errorf("%+v", k)
	}
	l.stake(t, "unstake", 80)
	polltest.Until(t, "there is no key", func() bool { return len(l.venice.Issued()) == 0 })
}
