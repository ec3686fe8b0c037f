package settings

import (
	"slices"

	"bardo.money/gateway/extproc/layers/injection"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/models"
)

// Injections are the policies for texts that seem to contain instructions, by source.
func Injections(c *config.InjectionDetection) injection.Policies {
	return injection.PoliciesOf(injection.Policy(c.Policy), injection.Policy(c.User), injection.Policy(c.Documents))
}

// NeedsModel reports whether requests that only the local model can judge are refused while it does not run.
func NeedsModel(c *config.InjectionDetection) bool {
	p := Injections(c)
	return c.OnError != "allow" && slices.ContainsFunc(p[:], injection.Policy.Waits)
}

// WhyNoModel is why a local model does not run.
func WhyNoModel(s *models.Status) string {
	switch s.State { //nolint:exhaustive // the others run
	case models.StateAbsent:
		return s.Name + " is not installed"
	case models.StateFailed:
		return s.Name + " cannot be used"
	}
	return s.Detail
}
