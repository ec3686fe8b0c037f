// Package wallet watches the operator's account at Bankr, which inference is paid from (P-12): it reads the credit, buys more within the bounds of the
// configuration, compares Bankr's report of usage with the ledger, and says what the wallet can afford. What is decided is in policy/credit and
// policy/budget; who may spend what of it, in extproc/funds.
package wallet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/probe"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/credit"
	"bardo.money/gateway/policy/ledger"
)

// File is where the state is kept, in the gateway's home.
const File = "wallet.json"

// State is what is known of the account. A purchase is in it before it is sent, so that no crash makes room for another one.
type State struct {
	Bought credit.Bought      `json:"bought"`
	Check  *Check             `json:"check,omitempty"`
	Usage  *credit.Comparison `json:"usage,omitempty"`
}

// Check is one look at the credit.
type Check struct {
	At         time.Time     `json:"at"`
	Credit     policy.Micro  `json:"credit_usd"`
	Action     credit.Action `json:"action"`
	LedgerCost policy.Micro  `json:"ledger_cost_usd"` // what the ledger has of Bankr, ever
}

// Options are what a monitor works with. All are required.
type Options struct {
	Home    home.Dir
	Config  func() *config.Config // the one in force
	Ledger  *ledger.Ledger
	Prober  func() *probe.Client
	Egress  *http.Client  // through Envoy
	Secret  func() string // what calls carry
	Events  *event.Sink
	Metrics *telemetry.Metrics
	Changed chan<- struct{} // is told, without waiting, that what the wallet can afford has changed
	Log     *slog.Logger
}

// Monitor watches the account. A nil one knows nothing. Safe for concurrent use, but for Run.
type Monitor struct {
	o     Options
	live  atomic.Pointer[Check]
	tops  sync.Map // purchases by outcome: *atomic.Int64
	state State    // of Run
}

// Open reads what was known before the start.
func Open(o Options) (*Monitor, error) {
	m := &Monitor{o: o}
	s, err := Read(o.Home)
	if err != nil {
		return nil, err
	}
	m.state = s
	m.live.Store(s.Check)
	o.Metrics.WatchWallet(m.metrics)
	return m, nil
}

// Read reads the state that a gateway keeps.
func Read(h home.Dir) (s State, err error) {
	b, err := os.ReadFile(h.Path(File))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return State{}, fmt.Errorf("%s: %w; without it, purchases of today are not known", h.Path(File), err)
	}
	return s, nil
}

// Apply is a configuration with what was read of the account in the place of what the operator said.
func (m *Monitor) Apply(cfg *config.Config) *config.Config {
	if m == nil {
		return cfg
	}
	return With(cfg, m.live.Load())
}

// With is a configuration with a look at the account in the place of what the operator said; nil for none.
func With(cfg *config.Config, c *Check) *config.Config {
	b := cfg.Providers.Bankr
	if b == nil || b.CreditInterval == 0 || c == nil {
		return cfg
	}
	out, own := *cfg, *b
	own.RevenueBalance, own.LifetimeCost = c.Credit, b.LifetimeCost.Plus(c.LedgerCost)
	if c.Credit <= 0 {
		own.RevenueBalance = -1 // known to be used up, also where no balance was stated
	}
	out.Providers.Bankr = &own
	return &out
}

// Of is what the wallet of a configuration earned and spent.
func Of(cfg *config.Config) budget.Wallet {
	if p := cfg.Providers.Bankr; p != nil {
		return budget.Wallet{Revenue: p.LifetimeRevenue, Cost: p.LifetimeCost}
	}
	return budget.Wallet{}
}

const (
	idle = 5 * time.Second        // between two looks at a configuration that has no account
	soon = 500 * time.Millisecond // after a call that did not get as far as Envoy
)

// Run watches the account until ctx is done.
func (m *Monitor) Run(ctx context.Context) {
	wake := time.NewTimer(soon)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake.C:
			wake.Reset(m.look(ctx))
		}
	}
}

// look reads the account if there is one, and says when to look again.
func (m *Monitor) look(ctx context.Context) time.Duration {
	b := m.o.Config().Providers.Bankr
	if b == nil || b.CreditInterval == 0 {
		return idle
	}
	err := m.check(ctx, b)
	if errors.Is(err, probe.ErrNotAsked) {
		return soon
	}
	if err == nil {
		err = m.compare(ctx, b)
	}
	if err != nil && ctx.Err() == nil {
		m.o.Log.Warn("the account at Bankr was not read: what is known of it stays in force", "error", err)
	}
	return b.CreditInterval
}

// metrics are the account's numbers for a scrape.
func (m *Monitor) metrics() (w telemetry.Wallet, ok bool) {
	cfg := m.Apply(m.o.Config())
	if v := cfg.Providers.Venice; v != nil && v.DIEMStaked {
		w.Staked, w.StakeDaily = true, int64(v.DIEMDaily)
		if parts, err := m.o.Ledger.SpentByPart(context.Background(), "", "", time.Now()); err == nil {
			w.StakeUsed = int64(parts[ledger.PartStake])
		}
	}
	now := m.live.Load()
	if b := cfg.Providers.Bankr; b == nil || b.CreditInterval == 0 || now == nil {
		return w, w.Staked
	}
	purse := Of(cfg)
	w.Watched, w.Credit, w.Ratio, w.Percent = true, int64(now.Credit), purse.Ratio(), purse.Percent()
	w.Purchases = map[string]int64{}
	m.tops.Range(func(k, v any) bool {
		w.Purchases[k.(string)] = v.(*atomic.Int64).Load() //nolint:forcetypeassert // it holds nothing else
		return true
	})
	return w, true
}
