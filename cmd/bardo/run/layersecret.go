package run

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"sync"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/config"
)

// layersSecret is what the layers derive keys from, read on first use: pipeline.pii.secret, else the pepper of the ledger, which gateways that share a ledger
// share. Where there is neither, it lasts as long as the configuration.
func (g *gateway) layersSecret(cfg *config.Config) func() []byte {
	return sync.OnceValue(func() []byte {
		if own := cfg.Pipeline.PII.Secret; own.IsSet() {
			return []byte(own.Reveal())
		}
		pepper, err := os.ReadFile(home.PepperPath(cfg.Store.LedgerFile(string(g.home))))
		if err != nil {
			pepper = make([]byte, sha256.Size)
			_, _ = rand.Read(pepper) // never fails (crypto/rand)
		}
		m := hmac.New(sha256.New, bytes.TrimSpace(pepper))
		m.Write([]byte("layers"))
		return m.Sum(nil)
	})
}

// contentSecret is what content on the disk is encrypted with where the operator has set no key: derived from the pepper of the ledger. It is "" where that cannot
// be read, since what is encrypted with it has to be readable after a restart.
func (g *gateway) contentSecret(cfg *config.Config) string {
	pepper, err := os.ReadFile(home.PepperPath(cfg.Store.LedgerFile(string(g.home))))
	if err != nil || len(bytes.TrimSpace(pepper)) == 0 {
		g.log.Warn("what agents and deferred requests store is not encrypted: there is no pepper to derive a key from, and no store.cache_key or deferred.key", "error", err)
		return ""
	}
	m := hmac.New(sha256.New, bytes.TrimSpace(pepper))
	m.Write([]byte("content at rest"))
	return hex.EncodeToString(m.Sum(nil))
}
