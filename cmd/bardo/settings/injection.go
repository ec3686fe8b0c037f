package settings

import (
	"cmp"

	"bardo.money/gateway/extproc/layers/injection"
	"bardo.money/gateway/internal/config"
)

// Injections is what happens to texts that seem to hold instructions, by source.
func Injections(c *config.InjectionDetection) injection.Policies {
	p := cmp.Or(injection.Policy(c.Policy), injection.Flag)
	user := injection.Policy(c.User)
	if user == "" {
		user = injection.Flag
		if p == injection.Off {
			user = injection.Off
		}
	}
	return injection.Policies{user, p, cmp.Or(injection.Policy(c.Documents), p)}
}
