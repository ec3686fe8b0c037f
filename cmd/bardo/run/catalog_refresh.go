package run

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"time"

	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// Timing of reads of providers' lists of models.
const (
	listTimeout      = time.Minute            // bounds one read
	listRetry        = 5 * time.Second        // after the first failed read; doubled after each further one
	listRetryNoEnvoy = 500 * time.Millisecond // after a read that did not reach Envoy
	priceRetry       = 5 * time.Second        // until due prices are in force
)

// listState is the schedule of one provider's list.
type listState struct {
	due      time.Time
	failures int // consecutive failures
}

// watchLists reads providers' lists of models until ctx is done, as often as the configuration says. A reloaded configuration takes effect immediately.
// Prices that depend on the time of day are put in force when they change.
func (g *gateway) watchLists(ctx context.Context) error {
	states := map[policy.ProviderID]listState{}
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.configChanged:
		case <-wake.C:
		}
		cfg := g.cfg.Load()
		wake.Reset(min(g.readDueLists(ctx, cfg, states), g.applyDuePrices(time.Now())))
	}
}

// idleInterval is how long watchLists sleeps if no list is configured.
const idleInterval = time.Hour

// readDueLists reads the lists that are due, and returns the time until the next one.
func (g *gateway) readDueLists(ctx context.Context, cfg *config.Config, states map[policy.ProviderID]listState) time.Duration {
	every := time.Duration(cfg.Models.Refresh)
	if every == 0 {
		clear(states)
		return idleInterval
	}
	next := idleInterval
	changed := false
	for _, p := range cfg.Enabled() {
		if !settings.ReadsList(&p) {
			continue
		}
		l := states[p.ID]
		if !time.Now().Before(l.due) {
			var listChanged bool
			listChanged, l = g.refreshList(ctx, &p, l, every)
			changed = changed || listChanged
			states[p.ID] = l
		}
		next = min(next, max(time.Until(l.due), 0))
	}
	if changed {
		notify(g.listsChanged)
	}
	return next
}

// applyDuePrices has prices put in force that depend on the time of day and are due, and returns when to check again.
func (d *dataPath) applyDuePrices(now time.Time) time.Duration {
	d.runtimeMu.Lock()
	until := d.runtime.Resolver.PricesUntil()
	d.runtimeMu.Unlock()
	switch {
	case until.IsZero():
		return idleInterval
	case now.Before(until):
		return until.Sub(now)
	}
	notify(d.listsChanged)
	return priceRetry
}

// refreshList reads one provider's list. changed reports whether it differs from the last one.
func (g *gateway) refreshList(ctx context.Context, p *config.Provider, l listState, every time.Duration) (changed bool, next listState) {
	changed, err := g.readList(ctx, p)
	switch {
	case err == nil:
		return changed, listState{due: time.Now().Add(jittered(every))}
	case ctx.Err() != nil:
		return false, l
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist): // Envoy is not up yet: no request was sent
		l.due = time.Now().Add(min(listRetryNoEnvoy, every))
		return false, l
	}
	wait := jittered(min(listRetry<<min(l.failures, 20), every))
	l.failures++
	l.due = time.Now().Add(wait)
	g.log.Warn("a provider's list of models was not read: the last one stays in force", "provider", string(p.ID), "error", err, "again_in", wait.String())
	notice.RefreshFailed.Emit(&g.events, "", notice.ListFailure{Provider: p.ID, Error: err.Error(), Failures: l.failures})
	return false, l
}

// jittered returns d ±10 %, so that gateways that started together do not poll in step.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // need not be unpredictable
}

// readList requests a provider's list, and stores it if it has changed.
func (g *gateway) readList(ctx context.Context, p *config.Provider) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	before, known := g.lists.Of(p)
	got, err := g.gate.Prober().ListModels(ctx, p.ID, before.ETag)
	if err != nil {
		return false, err
	}
	after := before
	after.Read = time.Now().UTC()
	if same := got.Unchanged || known && bytes.Equal(got.Body, before.Body); !same {
		changed = true
		after = settings.List{Source: settings.SourceOf(p), Format: p.Catalog, ETag: got.ETag, Read: after.Read, Body: got.Body}
		if after.Parsed, err = catalog.Parse(p.Catalog, got.Body); err != nil {
			return false, err
		}
	}
	if err := g.lists.Put(p.ID, after); err != nil {
		g.log.Error("a provider's list of models was not kept for the next start", "provider", string(p.ID), "error", err)
	}
	if changed {
		g.log.Info("read a provider's list of models", "provider", string(p.ID), "models", len(after.Parsed))
	}
	return changed, nil
}

// relist puts changed lists in force, and emits the changes.
func (g *gateway) relist(ctx context.Context) {
	before := g.models
	rt, err := g.assemble(g.cfg.Load())
	if err != nil {
		g.log.Error("providers' new lists of models are not in force", "error", err)
		return
	}
	g.use(ctx, rt)
	notice.Changes(&g.events, g.log, before, g.models)
}
