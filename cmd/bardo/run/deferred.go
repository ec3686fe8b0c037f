package run

import (
	"context"
	"errors"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/session"
)

// deferredFile is the store of deferred requests, in the state directory.
const deferredFile = "deferred.db"

// newDeferred creates the service of deferred requests; nil if it is switched off.
func (g *gateway) newDeferred(cfg *config.Config, sessions *session.Book) *deferred.Service {
	if cfg.Deferred.Mode == "off" {
		return nil
	}
	g.deferred = deferred.NewService(&deferred.Service{
		Path: g.home.Path(deferredFile), Keys: seal.Keys{Set: cfg.Deferred.Key.Reveal(), Own: home.ContentSecret(cfg.Store.LedgerFile(string(g.home)))}, Books: deferredBooks{g.books, sessions}, Log: g.log,
	}, deferredOptions(cfg))
	return g.deferred
}

// deferredBooks releases the money reserved for deferred requests, in the ledger and in their sessions.
type deferredBooks struct {
	*ledger.Ledger

	sessions *session.Book // nil: sessions are off
}

// ReleaseStandingHold implements deferred.Books.
func (b deferredBooks) ReleaseStandingHold(ctx context.Context, requestID string) error {
	err := b.Ledger.ReleaseStandingHold(ctx, requestID)
	if b.sessions != nil {
		err = errors.Join(err, b.sessions.Free(ctx, requestID))
	}
	return err
}

func deferredOptions(cfg *config.Config) deferred.Options {
	d := &cfg.Deferred
	return deferred.Options{
		Batches: d.Batches, Gather: d.Gather, Poll: d.Poll, Fallback: d.Fallback, Keep: d.Keep, KeepDelivered: d.KeepDelivered,
		PerAccount: deferred.Limits{Requests: d.MaxRequests, Bytes: d.MaxBytes},
	}
}

// openDeferred opens the store before requests are accepted: it needs the ledger's reservations of its requests.
func (d *dataPath) openDeferred(ctx context.Context) error {
	if d.deferred == nil {
		return nil
	}
	return d.deferred.Open(ctx)
}

// useDeferred applies the times and limits of a new configuration.
func (d *dataPath) useDeferred(cfg *config.Config) {
	if d.deferred != nil {
		d.deferred.Use(deferredOptions(cfg))
	}
}

// runDeferred answers deferred requests until ctx is done.
func (d *dataPath) runDeferred(ctx context.Context) error {
	if d.deferred == nil {
		return nil
	}
	return d.deferred.Run(ctx)
}

// closeDeferred closes the store.
func (g *gateway) closeDeferred() {
	if g.deferred == nil {
		return
	}
	if err := g.deferred.Close(); err != nil {
		g.log.Error("the store of deferred requests was not closed cleanly", "error", err)
	}
}
