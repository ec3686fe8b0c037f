package home

import (
	"context"
	"crypto/rand"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// DefaultTier is the plan of a key that is made without one.
const DefaultTier = policy.TierPro

// pepperVersion names the pepper that key hashes are made with; there is one.
const pepperVersion = 1

// KeySpec is a key that does not exist yet: its row, all but the id and the hash, and the balance that it starts with.
type KeySpec struct {
	Row     ledger.KeyRow
	Opening policy.Micro
}

// CreateKey makes a key and stores it. The secret is the whole key; nothing keeps it.
func CreateKey(ctx context.Context, books *ledger.Ledger, pepper *auth.Pepper, spec KeySpec) (id, secret string, err error) {
	row, secret, err := DrawKey(pepper, spec.Row)
	if err != nil {
		return "", "", err
	}
	if err := books.CreateKey(ctx, row, spec.Opening); err != nil {
		return "", "", err
	}
	return string(row.ID), secret, nil
}

// DrawKey makes a key, and completes its row.
func DrawKey(pepper *auth.Pepper, row ledger.KeyRow) (complete ledger.KeyRow, secret string, err error) {
	key, err := auth.NewKey(rand.Reader)
	if err == nil && row.Publishable {
		key, err = auth.NewSecret(rand.Reader, key.ID(), true)
	}
	if err != nil {
		return row, "", err
	}
	row.ID, row.PepperVersion = policy.Account(key.ID()), pepperVersion
	row.Hash, err = pepper.Hash(key)
	return row, key.Reveal(), err
}
