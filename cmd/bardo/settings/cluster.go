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

// ClusterID is the name of a provider's cluster. It changes when the provider moves: a request that was written for the old address, with the old credential,
// must not reach the new one. It also changes with the cluster's other settings: Envoy replaces a changed cluster, which ends a module's calls in flight.
func ClusterID(cfg *config.Config, p config.Provider) policy.ProviderID {
	name := Place(p)
	connect, roots := cfg.Routing.Timeouts.Connect, cfg.Providers.CAFile
	proxy := cfg.ProxyOf(&p)
	if len(p.Endpoints) == 0 || connect == defaultConnect && roots == "" && !proxy.IsValid() {
		return name
	}
	reached := string(name) + "\n" + connect.String() + "\n" + roots
	if proxy.IsValid() {
		reached += "\n" + proxy.String()
	}
	sum := sha256.Sum256([]byte(reached))
	return name + "." + policy.ProviderID(hex.EncodeToString(sum[:4]))
}

// defaultConnect is the default of routing.timeouts.connect.
const defaultConnect = 5 * time.Second

// Place identifies a provider and its address.
func Place(p config.Provider) policy.ProviderID {
	name := policy.ProviderID(strings.ReplaceAll(string(p.ID), "/", "."))
	if len(p.Endpoints) == 0 {
		return name
	}
	h := sha256.New()
	if string(name) != string(p.ID) { // a server of the operator may have that name
		_, _ = io.WriteString(h, string(p.ID)+"\n")
	}
	for _, u := range p.Endpoints {
		_, _ = io.WriteString(h, u.Scheme+"://"+u.Host+"\n") // a hash's Write never fails
	}
	return name + "." + policy.ProviderID(hex.EncodeToString(h.Sum(nil)[:4]))
}
