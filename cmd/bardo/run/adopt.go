package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/run/module"
	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/catalog"
)

// adoptTime bounds how long Envoy may take to accept a new configuration.
const adoptTime = 10 * time.Second

// adopt puts a configuration in force completely, or, if it is invalid or this process's Envoy rejects it, not at all. Mistakes in it are written to
// problems.
func (g *gateway) adopt(ctx context.Context, data []byte, problems io.Writer) error {
	if len(data) == 0 && g.configPath != "" {
		return errors.New("the file is empty")
	}
	cfg, err := settings.Parse(g.configPath, data, problems)
	if errors.As(err, new(cli.Exit)) { // the problems are already written
		return control.ErrMistakes
	}
	if err != nil {
		return err
	}
	if err := g.port.apply(cfg); err != nil {
		return err
	}
	g.learnSecrets(cfg)
	var rt *runtime.Config
	before := g.models
	if g.data {
		if rt, err = g.assemble(cfg); err != nil {
			return err
		}
	}
	if g.module {
		if err := g.inEnvoy.Check(ctx, data); errors.Is(err, module.ErrUnreachable) {
			return notApplied{err} // the reload is retried
		} else if err != nil {
			return err
		}
	}
	if err := g.offer(ctx, cfg); err != nil {
		g.models = before
		return err
	}
	if g.module {
		if err := g.inEnvoy.Adopt(ctx, data); err != nil {
			return err
		}
	}
	g.enforce(ctx, cfg, rt, before)
	if g.controlPlaneOnly() {
		return g.awaitDistribution(ctx)
	}
	return nil
}

// notApplied is the error of a configuration that this process's Envoy rejected, or could not be asked about.
type notApplied struct{ error }

func (e notApplied) Unwrap() error { return e.error }

// refusedElsewhere names the Envoys that rejected a configuration which is in force.
type refusedElsewhere struct{ error }

func (e refusedElsewhere) Unwrap() error { return e.error }

// offer pushes a configuration to Envoys. If Envoy is a child of this process, offer waits until Envoy has applied it, and restores the previous one if Envoy
// rejects it.
func (g *gateway) offer(ctx context.Context, cfg *config.Config) error {
	if !g.control {
		return nil
	}
	cert, key, err := g.home.Certificate(cfg)
	if err != nil {
		return err
	}
	before, err := g.replaceOffer(ctx, func(now offered) offered { return offered{cfg, cert, key, now.fleet} })
	if err != nil {
		return fmt.Errorf("push it to Envoy: %w", err)
	}
	if !g.envoy {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	if err := g.server.Applied(limited); err != nil {
		_, back := g.replaceOffer(ctx, func(offered) offered { return before })
		return notApplied{errors.Join(err, back)}
	}
	return nil
}

// replaceOffer changes what is pushed to Envoys, and pushes it. On an error nothing has changed.
func (g *gateway) replaceOffer(ctx context.Context, change func(offered) offered) (before offered, err error) {
	g.offeredMu.Lock()
	defer g.offeredMu.Unlock()
	before = g.offered
	before.fleet = g.offered.fleet.Clone()
	g.offered = change(g.offered)
	if err = g.pushLocked(ctx); err != nil {
		g.offered = before
	}
	return before, err
}

// enforce puts a configuration that Envoy already has in force in this process. rt is nil without a data path; before is the previous catalog.
func (g *gateway) enforce(ctx context.Context, cfg *config.Config, rt *runtime.Config, before *catalog.Catalog) {
	if rt != nil {
		if err := g.directEvents(cfg); err != nil {
			g.log.Error("events go where they went", "error", err)
		}
		g.limiter.SetRules(settings.QuotaRules(cfg))
		g.books.SetDurable(isDurable(cfg))
		g.useDeferred(cfg)
		g.answers.Answers.Limit(cfg.Inference.Caching.MaxBytes)
		settings.TuneGC(cfg, g.inside)
	}
	old := g.cfg.Swap(cfg)
	_ = g.level.UnmarshalText([]byte(cfg.Telemetry.LogLevel)) // validated
	ids := settings.ProviderIDs(cfg)
	g.tracker.Track(ids...)
	for _, id := range settings.ProviderIDs(old) {
		if !slices.Contains(ids, id) {
			g.metrics.ProviderRemoved(string(id))
		}
	}
	if g.envoy {
		notify(g.addressesChanged)
	}
	if g.module { // a process with its own data path does so in install
		g.tracker.Renew(changedInConfig(old, cfg)...)
	}
	if rt == nil {
		return
	}
	g.use(ctx, rt)
	notice.Changes(&g.events, g.log, before, g.models)
	notify(g.configChanged)
}

// notify sends to a channel of capacity 1 without blocking. A token that is already there suffices.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// use puts a runtime in force: a sidecar waits until Envoy has the clusters that its requests name; for an Envoy of this process that was awaited already.
func (g *gateway) use(ctx context.Context, rt *runtime.Config) {
	if g.link != nil && !g.inside {
		g.waitForClusters(ctx, rt)
		return
	}
	g.install(rt)
}

// awaitDistribution waits until the Envoys that are connected to this control plane have applied the configuration, and reports those that rejected it.
// Configurations that they rejected before are pushed again first.
func (p *controlPlane) awaitDistribution(ctx context.Context) error {
	p.server.Retry()
	if p.server.Connected() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	if err := p.server.Applied(ctx); err != nil {
		return refusedElsewhere{err}
	}
	return nil
}
