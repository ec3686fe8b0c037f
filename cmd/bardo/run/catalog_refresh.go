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

// Looks at providers' lists of models.
const (
	listTime   = time.Minute            // how long one look may take
	listRetry  = 5 * time.Second        // after the first look that failed, and twice as long after each further one
	listAbsent = 500 * time.Millisecond // after a look that did not get as far as Envoy
	priceRetry = 5 * time.Second        // while due prices are not in force yet
)

// look is what is known of the looks at one provider's list.
type look struct {
	due    time.Time
	failed int // in a row
}

// watchLists reads providers' lists of models again and again until ctx is done. The configuration says how often; a reloaded one is
// noticed immediately. Prices by the time of the day are put in force when they change.
func (g *gateway) watchLists(ctx context.Context) error {
	looks := map[policy.ProviderID]look{}
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.configured:
		case <-wake.C:
		}
		cfg := g.cfg.Load()
		wake.Reset(min(g.lookAround(ctx, cfg, looks), g.priceChange(time.Now())))
	}
}

// idleLists is how long nothing is due where no list is read.
const idleLists = time.Hour

// lookAround reads the lists that are due, and says when the next one is.
func (g *gateway) lookAround(ctx context.Context, cfg *config.Config, looks map[policy.ProviderID]look) time.Duration {
	every := time.Duration(cfg.Models.Refresh)
	if every == 0 {
		clear(looks)
		return idleLists
	}
	next := idleLists
	changed := false
	for _, p := range cfg.Enabled() {
		if !settings.ReadsList(&p) {
			continue
		}
		l := looks[p.ID]
		if !time.Now().Before(l.due) {
			var news bool
			news, l = g.lookAt(ctx, &p, l, every)
			changed = changed || news
			looks[p.ID] = l
		}
		next = min(next, max(time.Until(l.due), 0))
	}
	if changed {
		notify(g.listed)
	}
	return next
}

// priceChange puts the prices of another time of the day in force where that is due, and says when to look again.
func (d *dataPath) priceChange(now time.Time) time.Duration {
	d.using.Lock()
	until := d.runtime.Resolver.PricesUntil()
	d.using.Unlock()
	switch {
	case until.IsZero():
		return idleLists
	case now.Before(until):
		return until.Sub(now)
	}
	notify(d.listed)
	return priceRetry
}

// lookAt reads one provider's list. changed reports whether it differs from the last one.
func (g *gateway) lookAt(ctx context.Context, p *config.Provider, l look, every time.Duration) (changed bool, next look) {
	changed, err := g.readList(ctx, p)
	switch {
	case err == nil:
		return changed, look{due: time.Now().Add(jittered(every))}
	case ctx.Err() != nil:
		return false, l
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist): // Envoy is not there yet: no request was sent
		l.due = time.Now().Add(min(listAbsent, every))
		return false, l
	}
	wait := jittered(min(listRetry<<min(l.failed, 20), every))
	l.failed++
	l.due = time.Now().Add(wait)
	g.log.Warn("a provider's list of models was not read: the last one stays in force", "provider", string(p.ID), "error", err, "again_in", wait.String())
	notice.RefreshFailed.Emit(&g.events, "", notice.Unread{Provider: p.ID, Error: err.Error(), Failures: l.failed})
	return false, l
}

// jittered is a time, give or take a tenth: gateways that started together do not stay in step.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // it need not be unpredictable
}

// readList requests a provider's list, and stores it if it has changed.
func (g *gateway) readList(ctx context.Context, p *config.Provider) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
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

// relist puts lists that have changed in force, and emits what they changed.
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
