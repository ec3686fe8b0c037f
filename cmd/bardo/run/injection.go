package run

import (
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
)

// injectionChecks report in /readyz?verbose what detects injections: the local model, or patterns alone.
func (g *gateway) injectionChecks() (checks []api.ReadyDetail) {
	in := &g.cfg.Load().Pipeline.Injection
	if in.Policy == "off" {
		return nil
	}
	all, err := g.modelStatus()
	if err != nil { // modelChecks reports it
		return nil
	}
	for _, s := range all {
		if s.Kind != manifest.Injection {
			continue
		}
		c := api.ReadyDetail{Name: "injection detection", OK: true, Detail: in.Policy + ": by patterns and " + s.Name}
		if s.State == models.StateReady || s.State == models.StateInstalled {
			return append(checks, c)
		}
		c.Detail = in.Policy + ": by patterns alone, " + settings.WhyNoModel(&s)
		if settings.NeedsModel(in) && s.State != models.StateOff {
			c.OK, c.Detail = false, c.Detail+"; requests that they cannot judge are refused"
		}
		checks = append(checks, c)
	}
	return checks
}
