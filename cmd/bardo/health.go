package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/extproc"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/health"
)

// healthView is the control plane's health as the data path uses it.
type healthView struct {
	tracker *health.Tracker
	link    *link // nil where the control plane is in this process
}

var _ extproc.Health = healthView{}

var kinds = map[policy.Outcome]health.Kind{
	policy.Succeeded: health.OK, policy.Failed: health.Failure, policy.RateLimited: health.RateLimited, policy.Ignored: health.Ignored,
}

// Report implements extproc.Health.
func (v healthView) Report(r policy.Result) {
	res := health.Result{Provider: r.Provider, Kind: kinds[r.Outcome], RetryAfter: r.RetryAfter, Latency: r.Latency}
	v.tracker.Report(time.Now(), res)
	if v.link != nil {
		v.link.Report(res)
	}
}

// Plan implements extproc.Health.
func (v healthView) Plan(candidates []policy.ProviderID) ([]policy.ProviderID, func()) {
	return v.tracker.Plan(time.Now(), candidates)
}

// State implements extproc.Health.
func (v healthView) State(p policy.ProviderID) string {
	for _, s := range v.tracker.Snapshot(time.Now()) {
		if s.Provider == p {
			return string(s.State)
		}
	}
	return string(health.Unknown)
}

// watchHealth pings the providers and pushes their order when it changes, until ctx is done.
func (g *gateway) watchHealth(ctx context.Context) error {
	var group errgroup.Group
	if g.data { // pings leave through Envoy, as everything does
		group.Go(func() error {
			health.Prober{Tracker: g.tracker, Probe: g.probe, Every: g.cfg.Load().Routing.PingInterval}.Run(ctx)
			return nil
		})
	}
	group.Go(func() error {
		g.tracker.Watch(ctx, func() {
			for _, s := range g.tracker.Snapshot(time.Now()) {
				g.metrics.ProviderHealth(string(s.Provider), s.State != health.Down && s.State != health.Disabled)
			}
			if err := g.push(ctx); err != nil && ctx.Err() == nil {
				g.log.Error("the providers' order was not pushed", "error", err)
			}
		})
		return nil
	})
	return group.Wait()
}

// providerStates is what the providers command shows.
func (g *gateway) providerStates() []providerState {
	now, ids := time.Now(), providerIDs(g.cfg.Load())
	order := g.tracker.Order(now, ids)
	snapshot := g.tracker.Snapshot(now)
	out := make([]providerState, 0, len(ids))
	for _, id := range ids {
		i := slices.IndexFunc(snapshot, func(s health.Status) bool { return s.Provider == id })
		if i < 0 {
			continue
		}
		s := snapshot[i]
		out = append(out, providerState{
			Provider: id, State: string(s.State), Reason: s.Reason, Requests: s.Requests, ErrorRate: s.ErrorRate,
			Order: slices.Index(order, id) + 1,
		})
	}
	return out
}

// switchProvider takes a provider out of the order or back into it, and waits until Envoy has the new order.
func (g *gateway) switchProvider(ctx context.Context, name, verb string) error {
	if verb != "disable" && verb != "enable" {
		return fmt.Errorf("%q is not a thing to do with a provider: disable or enable it", verb)
	}
	if g.link != nil {
		return fmt.Errorf("the control plane at %s decides for all sidecars: run `bardo providers %s %s` there", g.cfg.Load().XDS.At(), verb, name)
	}
	if !g.tracker.SetDisabled(policy.ProviderID(name), verb == "disable") {
		return fmt.Errorf("there is no provider %q; the providers are %s", name, listed(providerIDs(g.cfg.Load())))
	}
	if err := g.push(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	if g.alone() {
		return g.switched(ctx)
	}
	return g.applied(ctx)
}

// switched keeps a switch for the next start, and gives connected Envoys time to take it. One that does not, does not undo it.
func (g *gateway) switched(ctx context.Context) error {
	if err := g.keepDisabled(); err != nil {
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

// applied waits until Envoy has what was pushed last. Without a control plane in this process there is nothing to wait for.
func (g *gateway) applied(ctx context.Context) error {
	if !g.control {
		return nil
	}
	return g.server.Applied(ctx)
}

// applyTime bounds how long a push may take.
const applyTime = 5 * time.Second
