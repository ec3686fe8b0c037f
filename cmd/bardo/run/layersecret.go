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
