package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/run/split"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/feed"
	"bardo.money/gateway/xds/health"
)

// controlPlaneOnly reports whether this process is a control plane and nothing else.
func (g *gateway) controlPlaneOnly() bool { return g.control && !g.envoy }

// openPlane creates the servers of a control plane that runs alone.
func (g *gateway) openPlane() error {
	master, err := g.home.SharedSecret()
	if err != nil {
		return err
	}
	secret := func(node string) string { return split.EgressSecret(master, node) }
	g.server = xds.NewServer(g.log, xds.Options{Secret: secret, Applied: func(node string) { g.feed.Refresh(node) }})
	g.feed = feed.NewServer(feed.ServerOptions{Tracker: g.tracker, Log: g.log, Secret: secret, Clusters: g.server.Providers})
	g.metrics.WatchControlPlane(func() telemetry.ControlPlane {
		return telemetry.ControlPlane{
			Nodes: g.server.Connected(), Feeds: g.feed.Connected(),
			Pushes: g.server.Pushes(), Rejections: g.server.Rejections(), Results: g.feed.Results(),
		}
	})
	disabled, err := loadDisabled(g.home)
	if err != nil {
		return err
	}
	for _, id := range disabled {
		g.tracker.SetDisabled(id, true) // false: it is not configured any more
	}
	return nil
}

// listenPlane starts the servers for Envoys, sidecars, this program's commands, and operators.
func (g *gateway) listenPlane(ctx context.Context, group *errgroup.Group, info *home.RunInfo) error {
	info.Control, info.XDS = g.sockets.plane, g.sockets.xds
	if err := g.listenAdmin(ctx, group, "xds.admin", settings.Address(g.cfg.Load().XDS.Admin), info); err != nil {
		return err
	}
	control, err := xds.Listen(ctx, g.sockets.plane)
	if err != nil {
		return err
	}
	group.Go(func() error { return serveHTTP(ctx, control, g.planeHandler()) })
	l, err := xds.Listen(ctx, g.sockets.xds)
	if err != nil {
		return fmt.Errorf("xds.listen: %w", err)
	}
	if l.Addr().Network() == "tcp" {
		info.XDS = l.Addr().String()
	}
	secure := g.split.AsPlane()
	if _, unix := l.(*net.UnixListener); unix {
		secure = nil
	}
	group.Go(func() error { return g.server.Serve(ctx, l, secure, g.feed.Register) })
	return nil
}

// publish sends the provider order to the sidecars. The caller holds offeredMu.
func (p *controlPlane) publish() {
	if p.feed == nil {
		return
	}
	now := time.Now()
	all := p.tracker.Snapshot(now)
	order := p.tracker.Order(now, settings.ProviderIDs(p.offered.cfg))
	place := func(s health.Status) int {
		if i := slices.Index(order, s.Provider); i >= 0 {
			return i
		}
		return len(order) // disabled
	}
	slices.SortStableFunc(all, func(a, b health.Status) int { return place(a) - place(b) })
	p.feed.Publish(all)
}

// loadDisabled returns the providers that an operator has disabled, which lasts across restarts of the control plane.
func loadDisabled(h home.Dir) (ids []policy.ProviderID, err error) {
	b, err := os.ReadFile(h.Path("disabled.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &ids); err != nil {
		return nil, fmt.Errorf("%s: %w", h.Path("disabled.json"), err)
	}
	return ids, nil
}

// saveDisabled saves which providers are disabled.
func (g *gateway) saveDisabled() error {
	ids := []policy.ProviderID{}
	for _, id := range settings.ProviderIDs(g.cfg.Load()) {
		if g.tracker.Disabled(id) {
			ids = append(ids, id)
		}
	}
	return g.home.WriteFile("disabled.json", ids)
}
