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
	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/catalog"
)

// adoptTime bounds how long Envoy may take to answer a new configuration.
const adoptTime = 10 * time.Second

// adopt puts a configuration in force: all of it, or nothing where it cannot be used or the Envoy of this process refuses it. Mistakes in it are
// written to problems.
func (g *gateway) adopt(ctx context.Context, data []byte, problems io.Writer) error {
	if len(data) == 0 && g.configPath != "" {
		return errors.New("the file is empty")
	}
	cfg, err := settings.Parse(g.configPath, data, problems)
	if errors.As(err, new(cli.Exit)) { // the problems were written
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
		if err := g.inEnvoy.check(ctx, data); err != nil {
			return err
		}
	}
	if err := g.offer(ctx, cfg); err != nil {
		g.models = before
		return err
	}
	if g.module {
		if err := g.inEnvoy.adopt(ctx, data); err != nil {
			return err
		}
	}
	g.enforce(ctx, cfg, rt, before)
	if g.alone() {
		return g.distributed(ctx)
	}
	return nil
}

// notApplied is why the Envoy of this process does not have a configuration: it refused it, or it does not answer.
type notApplied struct{ error }

func (e notApplied) Unwrap() error { return e.error }

// refusedElsewhere says which of the Envoys of a control plane refused a configuration that is in force.
type refusedElsewhere struct{ error }

func (e refusedElsewhere) Unwrap() error { return e.error }

// offer gives Envoys a configuration. Where Envoy is a part of this process, offer returns when it has the configuration; if it refuses, it has
// the one before again.
func (g *gateway) offer(ctx context.Context, cfg *config.Config) error {
	if !g.control {
		return nil
	}
	cert, key, err := g.home.Certificate(cfg)
	if err != nil {
		return err
	}
	before, err := g.exchangeOffer(ctx, func(now offered) offered { return offered{cfg, cert, key, now.fleet} })
	if err != nil {
		return fmt.Errorf("push it to Envoy: %w", err)
	}
	if !g.envoy {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	if err := g.server.Applied(limited); err != nil {
		_, back := g.exchangeOffer(ctx, func(offered) offered { return before })
		return notApplied{errors.Join(err, back)}
	}
	return nil
}

// exchangeOffer changes what Envoys are given and pushes it. On an error nothing has changed.
func (g *gateway) exchangeOffer(ctx context.Context, change func(offered) offered) (before offered, err error) {
	g.pushing.Lock()
	defer g.pushing.Unlock()
	before = g.offered
	before.fleet = g.offered.fleet.clone()
	g.offered = change(g.offered)
	if err = g.pushLocked(ctx); err != nil {
		g.offered = before
	}
	return before, err
}

// enforce puts a configuration that Envoy has in force in this process. rt is nil where there is no data path; before is the catalog until now.
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
		notify(g.moved)
	}
	if g.module { // with a data path of its own, it learns this with the runtime
		g.tracker.Renew(otherwiseConfigured(old, cfg)...)
	}
	if rt == nil {
		return
	}
	g.use(ctx, rt)
	notice.Changes(&g.events, g.log, before, g.models)
	notify(g.configured)
}

// notify leaves a token in a channel with room for one; one that is there says the same.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// use puts a runtime in force once Envoy has the clusters that its requests will name: those of an Envoy of this process were awaited.
func (g *gateway) use(ctx context.Context, rt *runtime.Config) {
	if g.link != nil && !g.inside {
		g.replaceWaiting(ctx, rt)
		return
	}
	g.install(rt)
}

// distributed waits until the Envoys that are connected to this control plane have taken the configuration, and says which refused it. What they
// refused before is offered again immediately.
func (p *controlPlane) distributed(ctx context.Context) error {
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
