package runtime

import (
	"time"

	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/policy/attestation"
)

// SetCognition configures the records of the private provider, once the providers are known. Without such a provider records are made up, one per
// rate.
func (rt *Config) SetCognition(rate time.Duration) {
	s := cognition.Settings{Mock: true, MockRate: rate, Attested: map[string]*attestation.Policy{}}
	for id, p := range rt.Providers.All() {
		if p.Adapter.Name() == cognition.Kind {
			s.Mock = false
		}
		if p.Attestation != nil {
			s.Attested[string(id)] = p.Attestation
		}
	}
	rt.Cognition = s
}
