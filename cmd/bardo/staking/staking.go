// Package staking has the gateway's key at Venice follow a position of staked VVV (P-11): it reads the position on its chain, and makes, limits, exchanges and
// deletes the key through Venice's key API. What is decided is in policy/stake.
package staking

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/stake"
)

// File is where the name of this gateway's keys is kept, in its home. The keys themselves are in memory alone: each start makes another one.
const File = "staking.json"

// Options are what a manager works with. All are required.
type Options struct {
	Home    home.Dir
	Config  func() *config.Config // the one in force
	Open    stake.Opener
	Cluster func(*config.Config) policy.ProviderID // Venice's cluster in Envoy
	Egress  *http.Client                           // through Envoy
	Secret  func() string                          // what calls carry
	Events  *event.Sink
	Changed chan<- struct{} // is told, without waiting, that another key is in force
	Log     *slog.Logger
}

// Manager manages the key. A nil one has none. Safe for concurrent use, but for Run.
type Manager struct {
	o    Options
	live atomic.Pointer[standing]
	said atomic.Uint32 // the phase that was said last, a policy.Phase
	wake chan struct{} // has room for one

	// Of Run:
	name    string
	node    stake.NodeOptions
	chain   stake.Chain
	staked  *big.Int // nil: it was never read
	low     bool
	key     stake.Key
	spare   []spare
	cleared bool // no key of an earlier process is left
}

// standing is what is in force.
type standing struct {
	credits float64
	key     secret.Text // not set: there is none
}

// spare is a key that is to be deleted.
type spare struct {
	id   string
	from time.Time // when requests do not use it any more
}

// New makes the manager. It asks nobody anything yet.
func New(o Options) *Manager { return &Manager{o: o, wake: make(chan struct{}, 1)} }

// nameOf is what the keys of the gateway with this home are called at Venice.
func nameOf(h home.Dir) (string, error) {
	var kept struct {
		Name string `json:"name"`
	}
	b, err := os.ReadFile(h.Path(File))
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", h.Path(File), err)
	}
	if kept.Name == "" {
		random := make([]byte, 8)
		_, _ = rand.Read(random) // never fails (crypto/rand)
		kept.Name = "bardo staking " + hex.EncodeToString(random)
		if err := h.Keep(File, kept); err != nil {
			return "", err
		}
	}
	return kept.Name, nil
}

// Apply is a configuration with the manager's key and the position's credit in the place of what the operator said. Without a key Venice is left out, or, where
// it is the only provider, has no key.
func (m *Manager) Apply(cfg *config.Config) *config.Config {
	v := cfg.Providers.Venice
	if m == nil || v == nil || v.Staking == nil {
		return cfg
	}
	now := m.live.Load()
	if now == nil {
		now = &standing{}
	}
	out, own := *cfg, *v
	own.APIKey, own.APIKeys, own.Credit = now.key, nil, &now.credits
	out.Providers.Venice = &own
	if now.key.IsSet() {
		return &out
	}
	out.Providers.Venice = nil
	if out.DemoOnly() { // invented answers must not take the place of Venice's
		out.Providers.Venice = &own
	}
	return &out
}

// Listener is told the phases that requests say; nil where a configuration does not want that.
func (m *Manager) Listener(cfg *config.Config) func(policy.Account, policy.Phase) {
	v := cfg.Providers.Venice
	if m == nil || v == nil || v.Staking == nil || v.Staking.PhaseFrom == "" {
		return nil
	}
	from := policy.Account(v.Staking.PhaseFrom)
	return func(a policy.Account, p policy.Phase) {
		if a != from || m.said.Swap(uint32(p)) == uint32(p) {
			return
		}
		select {
		case m.wake <- struct{}{}:
		default: // it is going to look anyway
		}
	}
}

// phase is the agent's.
func (m *Manager) phase(s *config.Staking) policy.Phase {
	if p := policy.Phase(m.said.Load()); s.PhaseFrom != "" && p != policy.PhaseUnset { //nolint:gosec // it holds nothing else
		return p
	}
	return s.InitialPhase()
}

const (
	idle  = 5 * time.Second        // between two looks at a configuration that has no section
	soon  = 500 * time.Millisecond // after a call that did not get as far as Envoy
	again = 15 * time.Second       // after one that failed
)

// Run manages the key until ctx is done.
func (m *Manager) Run(ctx context.Context) {
	if m == nil {
		return
	}
	next := time.NewTimer(soon)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-next.C:
		}
		next.Reset(m.look(ctx))
	}
}

// look reads the position if there is one, does what follows, and says when to look again.
func (m *Manager) look(ctx context.Context) time.Duration {
	v := m.o.Config().Providers.Venice
	if v == nil || v.Staking == nil {
		return idle
	}
	if err := m.read(ctx, v.Staking); err != nil && ctx.Err() == nil {
		m.o.Log.Warn("the staked VVV was not read: what is known of it stays in force", "error", err)
	}
	if m.staked == nil {
		return min(again, v.Staking.Interval)
	}
	rates := stake.Rates{Credit: v.CreditRate, USD: v.USDRate, Min: v.MinCredit}
	credits, phase := rates.Credits(m.staked), m.phase(v.Staking)
	limit := rates.Limit(credits, phase)
	eventRead.Emit(m.o.Events, "", position{v.Staking.Wallet, m.staked.String(), credits, phase.String(), limit})
	m.watch(v, credits)
	err := m.follow(ctx, v, credits, limit, phase)
	switch {
	case errors.Is(err, errNoEnvoy):
		return min(soon, v.Staking.Interval)
	case err != nil && ctx.Err() == nil:
		m.o.Log.Warn("the key at Venice does not follow the staked VVV at the moment", "error", err)
		return min(again, v.Staking.Interval)
	case len(m.spare) > 0:
		return min(grace, v.Staking.Interval)
	}
	return v.Staking.Interval
}

// watch tells of credit that has fallen below the minimum.
func (m *Manager) watch(v *config.Venice, credits float64) {
	low := credits < v.MinCredit
	if low && !m.low {
		m.o.Log.Warn("the staked VVV gives less credit than min_credit: Venice is not used", "credits", credits, "min_credit", v.MinCredit)
		eventLow.Emit(m.o.Events, "", lowCredit{credits, v.MinCredit})
	}
	m.low = low
}
