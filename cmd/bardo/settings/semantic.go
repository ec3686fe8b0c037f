package settings

import (
	"bardo.money/gateway/extproc/layers/semcache"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// SemanticScope is for which requests the semantic cache runs.
func SemanticScope(cfg *config.Config) (s semcache.Scope) {
	only := &cfg.Pipeline.SemanticOnly
	for _, k := range only.Keys {
		s.Keys = append(s.Keys, policy.Account(k))
	}
	for _, p := range only.Plans {
		s.Plans = append(s.Plans, policy.Tier(p))
	}
	s.Subsystems, s.Models = only.Subsystems, only.Models
	return s
}
