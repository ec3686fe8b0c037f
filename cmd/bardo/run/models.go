package run

import (
	"context"
	"fmt"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
)

// openModels opens the local models. A missing or broken model does not prevent the start.
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
		if s.NeedsAttention() {
			g.log.Warn("a local model is off", "kind", string(s.Kind), "model", s.Name, "why", s.Detail)
		}
	}
	if cfg.Models.Load == "start" || settings.NeedsModel(&cfg.Pipeline.Injection) || settings.FindsNames(cfg) { // else the first request would wait longer than allowed
		g.localLoaded.Go(g.local.Load)
	}
	return g.openSecond(cfg, o)
}

// openSecond opens the model of second opinions about injections.
func (g *gateway) openSecond(cfg *config.Config, o models.Options) (err error) {
	if cfg.Models.Second == models.Off || cfg.Models.Second == "" || !g.data {
		return nil
	}
	o.Choice = map[manifest.Kind]string{manifest.Embedding: models.Off, manifest.Injection: cfg.Models.Second, manifest.Entities: models.Off}
	if g.secondHost, err = models.NewHost(o); err != nil {
		return fmt.Errorf("configuration: models.second_opinion: %w", err)
	}
	return nil
}

// secondOpinion is the classifier of second opinions; nil: none.
func (m *localModels) secondOpinion() models.Classifier {
	if m.secondHost == nil {
		return nil
	}
	return m.secondHost.Classifier()
}

// modelHost provides local models, of this process or another one.
type modelHost interface {
	Embedder() models.Embedder
	Measurer() models.Measurer
	Classifier() models.Classifier
	Recognizer() models.Recognizer
	About(kind manifest.Kind) models.About
}

// noModels is the modelHost of a process without models.
type noModels struct{}

// Embedder implements modelHost.
func (noModels) Embedder() models.Embedder { return models.None }

// Measurer implements modelHost.
func (noModels) Measurer() models.Measurer { return models.None }

// Classifier implements modelHost.
func (noModels) Classifier() models.Classifier { return models.None }

// Recognizer implements modelHost.
func (noModels) Recognizer() models.Recognizer { return models.None }

// About implements modelHost.
func (noModels) About(manifest.Kind) models.About {
	return models.About{Threshold: models.None.Threshold()}
}

// usedModels returns the models that requests are served with.
func (m *localModels) usedModels() modelHost {
	switch {
	case m.local != nil:
		return m.local
	case m.remote != nil:
		return m.remote
	}
	return noModels{}
}

// aboutModels describes the models to the data path in Envoy's process.
func (m *localModels) aboutModels() map[manifest.Kind]models.About {
	out := make(map[manifest.Kind]models.About)
	if m.local != nil {
		for _, kind := range []manifest.Kind{manifest.Embedding, manifest.Injection, manifest.Entities} {
			out[kind] = m.local.About(kind)
		}
	}
	return out
}

// closeModels frees the local models.
func (m *localModels) closeModels() {
	if m.remote != nil {
		m.remote.Close()
	}
	if m.local == nil {
		return
	}
	m.localLoaded.Wait()
	if m.secondHost != nil {
		_ = m.secondHost.Close()
	}
	_ = m.local.Close() // the process exits
}

// modelStatus returns the state of the models. It fails if the process that runs them does not answer.
func (m *localModels) modelStatus() ([]models.Status, error) {
	switch {
	case m.local != nil:
		return m.local.Status(), nil
	case m.remote != nil:
		ctx, cancel := context.WithTimeout(context.Background(), stateTime)
		defer cancel()
		return m.remote.Status(ctx)
	}
	return nil, nil
}

// modelChecks report the local models in /readyz?verbose, also on the clients' listeners.
func (m *localModels) modelChecks() (checks []api.ReadyDetail) {
	all, err := m.modelStatus()
	if err != nil {
		return []api.ReadyDetail{{Name: "local models", Detail: "the program that runs them does not answer: what needs them is off"}}
	}
	for _, s := range all {
		checks = append(checks, api.ReadyDetail{Name: "model for " + string(s.Kind), OK: !s.NeedsAttention(), Detail: s.Brief()})
	}
	if m.secondHost != nil {
		for _, s := range m.secondHost.Status() {
			if s.Kind == manifest.Injection {
				checks = append(checks, api.ReadyDetail{Name: "model for second opinions", OK: !s.NeedsAttention(), Detail: s.Brief()})
			}
		}
	}
	return checks
}
