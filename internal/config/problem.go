package config

import "bardo.money/gateway/internal/configfile"

// Problem is one mistake in the configuration, or one warning.
type Problem = configfile.Problem

// Failed reports whether any of the problems is more than a warning.
func Failed(ps []Problem) bool {
	for _, p := range ps {
		if !p.Warning {
			return true
		}
	}
	return false
}
