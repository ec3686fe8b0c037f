package run

import (
	"context"
	"time"

	"bardo.money/gateway/cmd/bardo/run/fleet"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// offered is what is pushed to Envoys: a configuration, the certificate that it names, and the providers that have clusters.
type offered struct {
	cfg       *config.Config
	cert, key []byte
	fleet     fleet.Fleet
}

// state is the control plane's current state: the offered configuration, with providers ordered by health. Settings local to an Envoy are included only if
// Envoy is a child of this process. The caller holds offeredMu.
func (g *gateway) state() (state.State, error) {
	o := &g.offered
	st, err := o.fleet.State(o.cfg, g.tracker, time.Now())
	if err != nil {
		return st, err
	}
	st.CertPEM, st.KeyPEM = o.cert, o.key
	if g.envoy {
		st = st.At(g.childNode(settings.Address(o.cfg.Listen.HTTP), settings.Address(o.cfg.Listen.HTTPS)), g.secret)
		st.Module = g.module
	}
	return st, nil
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
