package run

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"os"
	"sync"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/config"
)

// layersSecret is the secret that layers derive keys from, read on first use: pipeline.pii.secret, else one derived from the ledger's pepper, which gateways
// on the same ledger share. Without either it is random, and lasts as long as the configuration.
func (g *gateway) layersSecret(cfg *config.Config) func() []byte {
	return sync.OnceValue(func() []byte {
		if own := cfg.Pipeline.PII.Secret; own.IsSet() {
			return []byte(own.Reveal())
		}
		pepper, err := os.ReadFile(home.PepperPath(cfg.Store.LedgerFile(string(g.home))))
		if err != nil {
			pepper = make([]byte, sha256.Size)
			_, _ = rand.Read(pepper) // crypto/rand never fails
		}
		m := hmac.New(sha256.New, bytes.TrimSpace(pepper))
		m.Write([]byte("layers"))
		return m.Sum(nil)
	})
}
