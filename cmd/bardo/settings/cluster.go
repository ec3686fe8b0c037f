package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// ClusterID is a provider's name in Envoy's configuration. It changes when the provider moves: a request that was written for the old
// place, with the old credential, must not reach the new one. And it changes with anything else that its clusters are made of: Envoy replaces a cluster
// that changes, which ends the calls of a module that are under way in it.
func ClusterID(cfg *config.Config, p config.Provider) policy.ProviderID {
	name := Place(p)
	connect, roots := cfg.Routing.Timeouts.Connect, cfg.Providers.CAFile
	if len(p.Endpoints) == 0 || connect == usualConnect && roots == "" {
		return name
	}
	sum := sha256.Sum256([]byte(string(name) + "\n" + connect.String() + "\n" + roots))
	return name + "." + policy.ProviderID(hex.EncodeToString(sum[:4]))
}

// usualConnect is the default of routing.timeouts.connect.
const usualConnect = 5 * time.Second

// Place names a provider and where it is.
func Place(p config.Provider) policy.ProviderID {
	name := policy.ProviderID(strings.ReplaceAll(string(p.ID), "/", "."))
	if len(p.Endpoints) == 0 {
		return name
	}
	h := sha256.New()
	if string(name) != string(p.ID) { // a server of the operator's may have that very name
		_, _ = io.WriteString(h, string(p.ID)+"\n")
	}
	for _, u := range p.Endpoints {
		_, _ = io.WriteString(h, u.Scheme+"://"+u.Host+"\n") // a hash takes everything
	}
	return name + "." + policy.ProviderID(hex.EncodeToString(h.Sum(nil)[:4]))
}
