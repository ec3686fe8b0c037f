package run

import (
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/profile"
)

// profiles are how parts of an agent want their answers made, by the table and the operator's word.
func (r *reporting) profiles(cfg *config.Config) *profile.Profiles {
	p, warnings := profile.New(settings.ProfileSettings(cfg))
	for _, w := range append(warnings, settings.UnknownSchemas(cfg)...) {
		r.log.Warn(w)
	}
	return p
}
