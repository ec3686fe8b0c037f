package run

import (
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/secret"
)

// learnSecrets adds a configuration's credentials to the redacted secrets. Those of earlier configurations stay redacted: requests that used them may still
// end, and be logged.
func (g *gateway) learnSecrets(cfg *config.Config) *secret.Redactor {
	for {
		old := g.secrets.Load()
		known := old.With(append(cfg.Secrets(), secret.New(g.egressSecret()), secret.New(g.adminToken))...)
		if g.secrets.CompareAndSwap(old, known) {
			return known
		}
	}
}
