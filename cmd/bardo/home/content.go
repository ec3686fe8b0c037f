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

// ContentKeys are what agents' and callers' own texts are encrypted with at rest: store.cache_key, else the secret of the ledger.
func (h Dir) ContentKeys(cfg *config.Config) seal.Keys {
	return seal.Keys{Set: cfg.Store.CacheKey.Reveal(), Own: ContentSecret(cfg.Store.LedgerFile(string(h)))}
}

// ContentSecret is what content on the disk is encrypted with where the operator has set no key: derived from the pepper of a ledger. It is "" where that cannot be
// read, since what is encrypted with it has to be readable after a restart.
func ContentSecret(ledger string) string {
	pepper, err := os.ReadFile(PepperPath(ledger))
	if pepper = bytes.TrimSpace(pepper); err != nil || len(pepper) == 0 {
		return ""
	}
	m := hmac.New(sha256.New, pepper)
	m.Write([]byte("content at rest"))
	return hex.EncodeToString(m.Sum(nil))
}
