package run

import (
	"context"
	"errors"
	"fmt"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// keyStore adapts the ledger to auth.Store.
type keyStore struct{ books *ledger.Ledger }

var _ auth.Store = keyStore{}

// Key reads a key's row.
func (s keyStore) Key(ctx context.Context, id string) (auth.Row, bool, error) {
	k, ok, err := s.books.Key(ctx, policy.Account(id))
	if err != nil || !ok {
		return auth.Row{}, false, err
	}
	return auth.Row{Principal: k.Principal(), Hash: k.Hash, Revoked: k.Revoked(), OldHash: k.OldHash, OldUntil: k.OldUntil}, true, nil
}

// Generation changes when any key changes.
func (s keyStore) Generation() uint64 { return s.books.Generation() }

// keys returns the verifier of the API keys in the ledger.
func (g *gateway) keys(ctx context.Context) (*auth.APIKeys, error) {
	pepper, err := home.PepperOf(ctx, g.home, g.books)
	if err != nil {
		return nil, err
	}
	return auth.NewAPIKeys(keyStore{g.books}, pepper, auth.Options{})
}

// firstKey creates a metered key if there are no keys, and returns its secret; "" if there are keys, or if another gateway on the same ledger created one
// first.
func (g *gateway) firstKey(ctx context.Context) (secret string, err error) {
	books := g.books
	if books == nil { // the ledger is open in Envoy's process
		if books, err = g.home.OpenLedger(ctx, g.cfg.Load()); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, books.Close()) }()
	}
	return g.firstKeyOf(ctx, books)
}

func (g *gateway) firstKeyOf(ctx context.Context, books *ledger.Ledger) (string, error) {
	keys, err := books.Keys(ctx)
	if err != nil || len(keys) > 0 {
		return "", err
	}
	pepper, err := g.home.Pepper(books.Path())
	if err != nil {
		return "", err
	}
	row, secret, err := admin.DrawKey(pepper, ledger.KeyRow{Name: "default", Tier: admin.DefaultTier})
	if err != nil {
		return "", fmt.Errorf("make the first API key: %w", err)
	}
	created, err := books.CreateFirstKey(ctx, row)
	if err != nil || !created {
		return "", err
	}
	return secret, nil
}
