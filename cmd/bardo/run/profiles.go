package run

import (
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/profile"
)

// profiles are the answer parameters of each subsystem, from the built-in table and the configuration.
func (r *reporting) profiles(cfg *config.Config) *profile.Profiles {
	p, warnings := profile.New(settings.ProfileSettings(cfg))
	for _, w := range append(warnings, settings.UnknownSchemas(cfg)...) {
		r.log.Warn(w)
	}
	return p
}
