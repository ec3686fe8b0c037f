package run

import (
	"fmt"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/models"
)

// openModels finds the local models. One that is not there, or is broken, does not keep the gateway from starting.
func (g *gateway) openModels(cfg *config.Config) (err error) {
	if g.parts.Runtime == nil || !g.data && !g.module {
		return nil
	}
	o, err := settings.LocalModels(cfg, g.home)
	if err != nil {
		return err
	}
	o.Load, o.Log, o.Meter = g.parts.Runtime, g.log, g.metrics
	if g.local, err = models.NewHost(o); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	for _, s := range g.local.Status() {
		if s.Wrong() {
			g.log.Warn("a local model is off", "kind", string(s.Kind), "model", s.Name, "why", s.Detail)
		}
	}
	if cfg.Models.Load == "start" {
		g.localLoaded.Go(g.local.Load)
	}
	return nil
}

// closeModels frees the local models.
func (m *localModels) closeModels() {
	if m.local == nil {
		return
	}
	m.localLoaded.Wait()
	_ = m.local.Close() // the process ends
}

// modelChecks are the local models in /readyz?verbose, which the clients' listeners show too.
func (m *localModels) modelChecks() (checks []api.ReadyDetail) {
	if m.local == nil {
		return nil
	}
	for _, s := range m.local.Status() {
		checks = append(checks, api.ReadyDetail{Name: "model for " + string(s.Kind), OK: !s.Wrong(), Detail: s.Brief()})
	}
	return checks
}
