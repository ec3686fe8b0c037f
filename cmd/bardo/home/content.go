package home

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/seal"
)

// ContentKeys are the keys that the texts of agents and callers are encrypted with at rest: store.cache_key, else ContentSecret.
func (h Dir) ContentKeys(cfg *config.Config) seal.Keys {
	return seal.Keys{Set: cfg.Store.CacheKey.Reveal(), Own: ContentSecret(cfg.Store.LedgerFile(string(h)))}
}

// ContentSecret is the secret that content on disk is encrypted with if the operator has set no key, derived from the ledger's pepper. It is "" if the pepper
// cannot be read: a random secret could not decrypt the content after a restart.
func ContentSecret(ledger string) string {
	pepper, err := os.ReadFile(PepperPath(ledger))
	if pepper = bytes.TrimSpace(pepper); err != nil || len(pepper) == 0 {
		return ""
	}
	m := hmac.New(sha256.New, pepper)
	m.Write([]byte("content at rest"))
	return hex.EncodeToString(m.Sum(nil))
}
