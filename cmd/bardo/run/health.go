package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/health"
)

// healthView is the control plane's health tracker as the data path uses it.
type healthView struct {
	tracker *health.Tracker
	link    *link // nil if the control plane is in this process
}

var _ extproc.Health = healthView{}

var kinds = map[policy.Outcome]health.Kind{
	policy.Succeeded: health.OK, policy.Failed: health.Failure, policy.RateLimited: health.RateLimited, policy.Ignored: health.Ignored,
	policy.Unreachable: health.Unreachable, policy.Refused: health.Refused,
}

// Report implements extproc.Health.
func (v healthView) Report(r policy.Result) {
	res := health.Result{Provider: r.Provider, Kind: kinds[r.Outcome], RetryAfter: r.RetryAfter, Latency: r.Latency, Reason: r.Reason}
	v.tracker.Report(time.Now(), res)
	if v.link != nil {
		v.link.Report(res)
	}
}

// Plan implements extproc.Health.
func (v healthView) Plan(candidates []policy.ProviderID) ([]policy.ProviderID, func()) {
	return v.tracker.Plan(time.Now(), candidates)
}

// State implements extproc.Health. A refused credential of the operator is reported to clients as down.
func (v healthView) State(p policy.ProviderID) string {
	for _, s := range v.tracker.Snapshot(time.Now()) {
		switch {
		case s.Provider != p:
		case s.State.Out():
			return string(health.Down)
		default:
			return string(s.State)
		}
	}
	return string(health.Unknown)
}

// watchHealth pings the providers, and pushes their order when it changes, until ctx is done.
func (g *gateway) watchHealth(ctx context.Context) error {
	var group errgroup.Group
	if g.data { // pings are sent through Envoy, as all calls are
		group.Go(guard.Again(ctx, func() error {
			health.Prober{Tracker: g.tracker, Probe: g.probe, Every: g.cfg.Load().Routing.PingInterval}.Run(ctx)
			return nil
		}))
	}
	group.Go(guard.Again(ctx, func() error {
		logged := loggedStates{}
		g.tracker.Watch(ctx, func() {
			now := time.Now()
			for _, s := range g.ownHealth(now) {
				g.metrics.ProviderHealth(string(s.Provider), !s.State.Out() && s.State != health.Disabled)
				g.logHealth(logged, now, s)
			}
			if err := g.push(ctx); err != nil && ctx.Err() == nil {
				g.log.Error("the providers' order was not pushed", "error", err)
			}
		})
		return nil
	}))
	return group.Wait()
}

// ownHealth is the health of providers that this process logs and exports as metrics: nil if the data path is in Envoy's process, which does so itself.
func (g *gateway) ownHealth(now time.Time) []health.Status {
	if g.module {
		return nil
	}
	return g.tracker.Snapshot(now)
}

// loggedState is the last logged state of a provider.
type loggedState struct {
	state     health.State
	refusedAt time.Time // when a refused credential was last logged; zero if never
}

type loggedStates map[policy.ProviderID]loggedState

// refusalLogInterval is the minimum time between two log lines about a provider's refused credential.
const refusalLogInterval = 10 * time.Minute

// logHealth logs each change of a provider's state once, and emits its event.
func (g *gateway) logHealth(logged loggedStates, now time.Time, s health.Status) {
	last := logged[s.Provider]
	if last.state == s.State {
		return
	}
	log := g.log.With("provider", string(s.Provider))
	was := last.state
	last.state = s.State
	switch {
	case s.State == health.CredentialRefused && now.Sub(last.refusedAt) >= refusalLogInterval:
		last.refusedAt = now
		fix := "correct its key"
		if p, ok := g.cfg.Load().Provider(s.Provider); ok {
			fix = p.KeyAdvice()
		}
		log.Error("the provider refuses the gateway's credential", "reason", s.Reason, "fix", fix)
		notice.CredentialRefused.Emit(&g.events, "", notice.ProviderFailure{Provider: s.Provider, Reason: s.Reason})
	case s.State == health.Down:
		log.Warn("the provider is down, and is tried after the others", "reason", s.Reason)
		notice.ProviderDown.Emit(&g.events, "", notice.ProviderFailure{Provider: s.Provider, Reason: s.Reason})
	case was.Out() && !s.State.Out() && s.State != health.Disabled:
		log.Info("the provider works again")
		notice.ProviderUp.Emit(&g.events, "", notice.ProviderRecovery{Provider: s.Provider})
	}
	logged[s.Provider] = last
}

// providerStates returns the providers in the order of the configuration, as the providers command shows them.
func (g *gateway) providerStates() []control.Provider {
	now, ids := time.Now(), settings.ProviderIDs(g.cfg.Load())
	order := g.tracker.Order(now, ids)
	snapshot := g.tracker.Snapshot(now)
	out := make([]control.Provider, 0, len(ids))
	for _, id := range ids {
		i := slices.IndexFunc(snapshot, func(s health.Status) bool { return s.Provider == id })
		if i < 0 {
			continue
		}
		s := snapshot[i]
		out = append(out, control.Provider{
			Provider: id, State: string(s.State), Reason: s.Reason, Requests: s.Requests, ErrorRate: s.ErrorRate,
			Order: slices.Index(order, id) + 1,
		})
	}
	return out
}

// shownProviders returns the providers as operators see them. A data path in Envoy's process has the latest results slightly earlier than this process.
func (g *gateway) shownProviders() []control.Provider {
	if g.module {
		ctx, cancel := context.WithTimeout(context.Background(), stateTime)
		defer cancel()
		if states, err := g.inEnvoy.Providers(ctx); err == nil {
			return states
		}
	}
	return g.providerStates()
}

// switchProvider disables or enables a provider, and waits until Envoy has the new order.
func (g *gateway) switchProvider(ctx context.Context, name, verb string) error {
	if verb != "disable" && verb != "enable" {
		return fmt.Errorf("%q is not a thing to do with a provider: disable or enable it", verb)
	}
	if g.link != nil {
		return fmt.Errorf("the control plane at %s decides for all sidecars: run `bardo providers %s %s` there", g.cfg.Load().XDS.At(), verb, name)
	}
	if !g.tracker.SetDisabled(policy.ProviderID(name), verb == "disable") {
		return fmt.Errorf("there is no provider %q; the providers are %s", name, cli.List(settings.ProviderIDs(g.cfg.Load())))
	}
	if err := g.push(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	if g.controlPlaneOnly() {
		return g.persistSwitch(ctx)
	}
	if g.module {
		g.inEnvoy.AwaitSwitch(ctx, policy.ProviderID(name), verb == "disable")
	}
	return g.applied(ctx)
}

// persistSwitch saves which providers are disabled, and gives connected Envoys time to apply the order. An Envoy that does not apply it is logged.
func (g *gateway) persistSwitch(ctx context.Context) error {
	if err := g.saveDisabled(); err != nil {
		return err
	}
	if g.server.Connected() == 0 {
		return nil
	}
	if err := g.applied(ctx); err != nil {
		g.log.Warn("not every envoy has the new order", "error", err)
	}
	return nil
}

// applied waits until Envoy has applied the last push. It returns immediately if the control plane is in another process.
func (g *gateway) applied(ctx context.Context) error {
	if !g.control {
		return nil
	}
	return g.server.Applied(ctx)
}

// applyTime bounds how long Envoy may take to apply a push.
const applyTime = 5 * time.Second
