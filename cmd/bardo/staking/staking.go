// Package staking adjusts the gateway's key at Venice to a position of staked VVV (P-11): it reads the position from its chain, and creates, limits, rotates
// and deletes the key by Venice's key API. Decisions are in policy/stake.
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

// File holds the name of this gateway's keys, in the state directory. The keys are in memory only: each start creates a new one.
const File = "staking.json"

// Options configure a manager. All are required.
type Options struct {
	Home    home.Dir
	Config  func() *config.Config // in force
	Open    stake.Opener
	Cluster func(*config.Config) policy.ProviderID // Venice's cluster in Envoy
	Egress  *http.Client                           // through Envoy
	Secret  func() string                          // of the egress listener
	Events  *event.Sink
	Changed chan<- struct{} // gets a token, without blocking, when another key is in force
	Log     *slog.Logger
}

// Manager manages the key. A nil Manager does nothing. Safe for concurrent use, except Run.
type Manager struct {
	o         Options
	live      atomic.Pointer[liveState]
	phaseHint atomic.Uint32 // the phase in the latest request, a policy.Phase
	wake      chan struct{} // capacity 1

	// used by Run only:
	name       string
	node       stake.NodeOptions
	chain      stake.Chain
	staked     *big.Int // nil: never read
	low        bool
	key        stake.Key
	unused     []unusedKey
	keysListed bool // no unknown keys of earlier processes are left
}

// liveState is the state in force.
type liveState struct {
	credits float64
	key     secret.Text // unset: none
}

// unusedKey is a key to be deleted.
type unusedKey struct {
	id   string
	from time.Time // when requests do not use it any more
}

// New creates the manager. It makes no calls yet.
func New(o Options) *Manager { return &Manager{o: o, wake: make(chan struct{}, 1)} }

// nameOf is the name of this gateway's keys at Venice.
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
		_, _ = rand.Read(random) // crypto/rand never fails
		kept.Name = "bardo staking " + hex.EncodeToString(random)
		if err := h.WriteFile(File, kept); err != nil {
			return "", err
		}
	}
	return kept.Name, nil
}

// Apply returns a configuration with the manager's key and the position's credit. Without a key Venice is removed, or, if it is the only provider, has no key.
func (m *Manager) Apply(cfg *config.Config) *config.Config {
	v := cfg.Providers.Venice
	if m == nil || v == nil || v.Staking == nil {
		return cfg
	}
	now := m.live.Load()
	if now == nil {
		now = &liveState{}
	}
	out, own := *cfg, *v
	own.APIKey, own.APIKeys, own.Credit = now.key, nil, &now.credits
	out.Providers.Venice = &own
	if now.key.IsSet() {
		return &out
	}
	out.Providers.Venice = nil
	if out.DemoOnly() { // the demo provider must not answer instead of Venice
		out.Providers.Venice = &own
	}
	return &out
}

// Listener returns a function that receives the phases that requests state; nil if the configuration does not use them.
func (m *Manager) Listener(cfg *config.Config) func(policy.Account, policy.Phase) {
	v := cfg.Providers.Venice
	if m == nil || v == nil || v.Staking == nil || v.Staking.PhaseFrom == "" {
		return nil
	}
	from := policy.Account(v.Staking.PhaseFrom)
	return func(a policy.Account, p policy.Phase) {
		if a != from || m.phaseHint.Swap(uint32(p)) == uint32(p) {
			return
		}
		select {
		case m.wake <- struct{}{}:
		default: // a poll is already pending
		}
	}
}

// phase is the agent's current phase.
func (m *Manager) phase(s *config.Staking) policy.Phase {
	if p := policy.Phase(m.phaseHint.Load()); s.PhaseFrom != "" && p != policy.PhaseUnset { //nolint:gosec // holds nothing else
		return p
	}
	return s.InitialPhase()
}

const (
	idleInterval = 5 * time.Second        // between two polls of a configuration without staking
	envoyRetry   = 500 * time.Millisecond // after a call that did not reach Envoy
	failureRetry = 15 * time.Second       // after a failed poll
)

// Run manages the key until ctx is done.
func (m *Manager) Run(ctx context.Context) {
	if m == nil {
		return
	}
	next := time.NewTimer(envoyRetry)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-next.C:
		}
		next.Reset(m.poll(ctx))
	}
}

// poll reads the position if there is one, acts on it, and returns the time until the next poll.
func (m *Manager) poll(ctx context.Context) time.Duration {
	v := m.o.Config().Providers.Venice
	if v == nil || v.Staking == nil {
		return idleInterval
	}
	if err := m.read(ctx, v.Staking); err != nil && ctx.Err() == nil {
		m.o.Log.Warn("the staked VVV was not read: what is known of it stays in force", "error", err)
	}
	if m.staked == nil {
		return min(failureRetry, v.Staking.Interval)
	}
	rates := stake.Rates{Credit: v.CreditRate, USD: v.USDRate, Min: v.MinCredit}
	credits, phase := rates.Credits(m.staked), m.phase(v.Staking)
	limit := rates.Limit(credits, phase)
	eventRead.Emit(m.o.Events, "", position{v.Staking.Wallet, m.staked.String(), credits, phase.String(), limit})
	m.reportLow(v, credits)
	err := m.updateKey(ctx, v, credits, limit, phase)
	switch {
	case errors.Is(err, errNoEnvoy):
		return min(envoyRetry, v.Staking.Interval)
	case err != nil && ctx.Err() == nil:
		m.o.Log.Warn("the key at Venice does not follow the staked VVV at the moment", "error", err)
		return min(failureRetry, v.Staking.Interval)
	case len(m.unused) > 0:
		return min(grace, v.Staking.Interval)
	}
	return v.Staking.Interval
}

// reportLow reports when the credit falls below the minimum.
func (m *Manager) reportLow(v *config.Venice, credits float64) {
	low := credits < v.MinCredit
	if low && !m.low {
		m.o.Log.Warn("the staked VVV gives less credit than min_credit: Venice is not used", "credits", credits, "min_credit", v.MinCredit)
		eventLow.Emit(m.o.Events, "", lowCredit{credits, v.MinCredit})
	}
	m.low = low
}
