package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// offered is what is pushed to Envoys: a configuration, the certificate that it names, and the providers that have clusters.
type offered struct {
	cfg       *config.Config
	cert, key []byte
	fleet     fleet
}

// state is the control plane's current state: the offered configuration, with providers ordered by health. Settings local to an Envoy are included only if
// Envoy is a child of this process. The caller holds offeredMu.
func (g *gateway) state() (state.State, error) {
	cfg := g.offered.cfg
	st := state.State{
		CertPEM: g.offered.cert, KeyPEM: g.offered.key,
		MaxBodyBytes: uint64(cfg.Limits.MaxBodyBytes), //nolint:gosec // validated as positive
		CORSOrigins:  cfg.Listen.CORSOrigins,
		CAPath:       cfg.Providers.CAFile,
		AccessLog:    cfg.Telemetry.LogLevel == "debug",
		Timeouts:     envoyTimeouts(cfg),
	}
	enabled := cfg.Enabled()
	for _, id := range g.tracker.Order(time.Now(), settings.ProviderIDs(cfg)) {
		st.Order = append(st.Order, settings.ClusterID(cfg, enabled[slices.IndexFunc(enabled, func(p config.Provider) bool { return p.ID == id })]))
	}
	for _, p := range enabled {
		sp := state.Provider{ID: settings.ClusterID(cfg, p), Disabled: g.tracker.Disabled(p.ID)}
		if sp.Demo = p.Kind == config.KindDemo; !sp.Demo {
			sp.Connect, sp.CAPath, sp.Proxy = cfg.Routing.Timeouts.Connect, cfg.Providers.CAFile, cfg.ProxyOf(&p)
		}
		for _, u := range p.Endpoints {
			e, err := state.ParseEndpoint(u.String())
			if err != nil {
				return st, fmt.Errorf("provider %s: %w", p.ID, err)
			}
			sp.Endpoints = append(sp.Endpoints, e)
		}
		st.Providers = append(st.Providers, sp)
	}
	for _, c := range settings.HookClusters(cfg) {
		e, err := state.ParseEndpoint(c.URL.String())
		if err != nil {
			return st, fmt.Errorf("hook %s: %w", c.ID, err)
		}
		st.Providers = append(st.Providers, state.Provider{ID: c.ID, Disabled: true, Endpoints: []state.Endpoint{e}}) // no request is routed there
	}
	st.Providers = g.offered.fleet.set(st.Providers, time.Now(), cfg.Routing.Timeouts.Total)
	if g.envoy {
		st = st.At(g.childNode(settings.Address(cfg.Listen.HTTP), settings.Address(cfg.Listen.HTTPS)), g.secret)
		st.Module = g.module
	}
	return st, nil
}

// uploadMargin is how much later than the sidecar Envoy times out an upload, so that the sidecar answers, in the client's format.
const uploadMargin = 30 * time.Second

func envoyTimeouts(cfg *config.Config) state.Timeouts {
	t := state.Timeouts{Connect: cfg.Routing.Timeouts.Connect, Upload: cfg.Limits.BodyTotal + uploadMargin}
	if wait := cfg.Limits.BodyIdle + uploadMargin; wait > state.ClientIdle {
		t.Client = wait
	}
	return t
}

// veniceCluster is the name of Venice's cluster; "" if Venice is not configured.
func veniceCluster(cfg *config.Config) policy.ProviderID {
	for _, p := range cfg.Enabled() {
		if p.ID == config.KindVenice {
			return settings.ClusterID(cfg, p)
		}
	}
	return ""
}

// push sends the current state to Envoys and sidecars. An unchanged state is not sent.
func (g *gateway) push(ctx context.Context) error {
	if !g.control {
		return nil
	}
	g.offeredMu.Lock()
	defer g.offeredMu.Unlock()
	return g.pushLocked(ctx)
}

func (g *gateway) pushLocked(ctx context.Context) error {
	st, err := g.state()
	if err != nil {
		return err
	}
	g.publish()
	return g.server.Set(ctx, st)
}
