package home

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// MaxOverlap bounds how long a secret counts that was replaced.
const MaxOverlap = 90 * 24 * time.Hour

// Rotated is a key with a new secret.
type Rotated struct {
	ID       policy.Account `json:"id"`
	Key      string         `json:"key"`
	OldUntil time.Time      `json:"old_secret_until"`
}

// RotateKey gives a key a new secret; the old one counts for a while. Nothing keeps the new one.
func RotateKey(ctx context.Context, books *ledger.Ledger, pepper *auth.Pepper, id policy.Account, overlap time.Duration) (r Rotated, err error) {
	row, ok, err := books.Key(ctx, id)
	if err == nil && !ok {
		err = fmt.Errorf("key %s: %w", id, ledger.ErrUnknownKey)
	}
	if err != nil {
		return r, err
	}
	key, err := auth.NewSecret(rand.Reader, string(id), row.Publishable)
	if err != nil {
		return r, err
	}
	hash, err := pepper.Hash(key)
	if err != nil {
		return r, err
	}
	r = Rotated{ID: id, Key: key.Reveal(), OldUntil: time.Now().Add(overlap)}
	return r, books.UpdateKey(ctx, id, func(k *ledger.KeyRow) error {
		if k.Revoked() {
			return errors.New("the key was revoked, which is for good")
		}
		k.Hash, k.OldHash, k.OldUntil, k.PepperVersion = hash, k.Hash, r.OldUntil, pepperVersion
		return nil
	})
}
