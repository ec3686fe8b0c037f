// Package wallet monitors the operator's account at Bankr, which inference is paid from (P-12): it reads the credit, buys more within the configured limits,
// compares Bankr's usage report with the ledger, and provides what the wallet can afford. Decisions are in policy/credit and policy/budget; per-caller limits
// are in extproc/funds.
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

// File is the state file, in the state directory.
const File = "wallet.json"

// State is the saved state of the account. A purchase is saved before it is sent, so that a crash cannot lead to another one.
type State struct {
	Bought credit.Bought      `json:"bought"`
	Check  *Check             `json:"check,omitempty"`
	Usage  *credit.Comparison `json:"usage,omitempty"`
}

// Check is one read of the credit.
type Check struct {
	At         time.Time     `json:"at"`
	Credit     policy.Micro  `json:"credit_usd"`
	Action     credit.Action `json:"action"`
	LedgerCost policy.Micro  `json:"ledger_cost_usd"` // the total cost at Bankr in the ledger
}

// Options configure a monitor. All are required.
type Options struct {
	Home    home.Dir
	Config  func() *config.Config // in force
	Ledger  *ledger.Ledger
	Prober  func() *probe.Client
	Egress  *http.Client  // through Envoy
	Secret  func() string // of the egress listener
	Events  *event.Sink
	Metrics *telemetry.Metrics
	Changed chan<- struct{} // gets a token, without blocking, when what the wallet can afford has changed
	Log     *slog.Logger
}

// Monitor monitors the account. A nil Monitor knows nothing. Safe for concurrent use, except Run.
type Monitor struct {
	o         Options
	live      atomic.Pointer[Check]
	purchases sync.Map // purchases by outcome: *atomic.Int64
	state     State    // used by Run only
}

// Open reads the saved state.
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

// Read reads a gateway's saved state.
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

// Apply returns the configuration with the stated balances replaced by those that were read.
func (m *Monitor) Apply(cfg *config.Config) *config.Config {
	if m == nil {
		return cfg
	}
	return With(cfg, m.live.Load())
}

// With returns a configuration with the stated balances replaced by those of a check; nil: none.
func With(cfg *config.Config, c *Check) *config.Config {
	b := cfg.Providers.Bankr
	if b == nil || b.CreditInterval == 0 || c == nil {
		return cfg
	}
	out, own := *cfg, *b
	own.RevenueBalance, own.LifetimeCost = c.Credit, b.LifetimeCost.Plus(c.LedgerCost)
	if c.Credit <= 0 {
		own.RevenueBalance = -1 // known to be used up, even if no balance was stated
	}
	out.Providers.Bankr = &own
	return &out
}

// Of is a configuration's wallet: its revenue and cost.
func Of(cfg *config.Config) budget.Wallet {
	if p := cfg.Providers.Bankr; p != nil {
		return budget.Wallet{Revenue: p.LifetimeRevenue, Cost: p.LifetimeCost}
	}
	return budget.Wallet{}
}

const (
	idleInterval = 5 * time.Second        // between two polls of a configuration without an account
	envoyRetry   = 500 * time.Millisecond // after a call that did not reach Envoy
)

// Run monitors the account until ctx is done.
func (m *Monitor) Run(ctx context.Context) {
	wake := time.NewTimer(envoyRetry)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake.C:
			wake.Reset(m.poll(ctx))
		}
	}
}

// poll reads the account if there is one, and returns the time until the next poll.
func (m *Monitor) poll(ctx context.Context) time.Duration {
	b := m.o.Config().Providers.Bankr
	if b == nil || b.CreditInterval == 0 {
		return idleInterval
	}
	err := m.check(ctx, b)
	if errors.Is(err, probe.ErrNotAsked) {
		return envoyRetry
	}
	if err == nil {
		err = m.compare(ctx, b)
	}
	if err != nil && ctx.Err() == nil {
		m.o.Log.Warn("the account at Bankr was not read: what is known of it stays in force", "error", err)
	}
	return b.CreditInterval
}

// metrics returns the account's metrics for a scrape.
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
	m.purchases.Range(func(k, v any) bool {
		w.Purchases[k.(string)] = v.(*atomic.Int64).Load() //nolint:forcetypeassert // it holds nothing else
		return true
	})
	return w, true
}
