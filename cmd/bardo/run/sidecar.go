package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/probe"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream/processor"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/feed"
	"bardo.money/gateway/xds/health"
)

// link is a sidecar's connection to the control plane, with the last view received from it.
type link struct {
	*feed.Client
	home    home.Dir
	tracker *health.Tracker
	use     func(secret string)
	ready   chan struct{} // closed once there is a view
	serving chan struct{} // closed once Envoy can connect to this process

	mu      sync.Mutex
	view    feed.View
	changed chan struct{} // closed and replaced when view changes
}

// openLink creates the link to the control plane. The view saved by the previous sidecar process is used until a new one arrives.
func (g *gateway) openLink() {
	l := &link{home: g.home, tracker: g.tracker, use: g.useSecret, ready: make(chan struct{}), serving: make(chan struct{}), changed: make(chan struct{})}
	at := string(g.cfg.Load().XDS.At())
	if g.inside {
		at = g.sockets.xds
	}
	l.Client = feed.NewClient(feed.ClientOptions{
		Node: g.split.Node, Version: cli.Version, Address: at, Secure: g.split.ToPlane(), Check: g.split.Check, Log: g.log,
		Viewed: func(v feed.View) {
			l.applyView(v)
			if g.inside {
				return // not saved: the control plane lives as long as this process
			}
			if err := g.home.WriteFile(viewFile, v); err != nil {
				g.log.Error("the control plane's word was not kept", "error", err)
			}
		},
		Granted: g.tracker.Grant, Revoke: g.tracker.Revoke,
		Disconnected: func() { g.tracker.Alone(time.Now()) },
	})
	g.metrics.WatchFeed(func() (bool, uint64) { return l.Connected(), l.Dropped() })
	g.link = l
	if g.inside {
		l.view.Secret = g.secret
		close(l.ready)
		return
	}
	v, err := loadView(g.home)
	switch {
	case err != nil:
		g.log.Warn("what the control plane said last cannot be read", "error", err)
	case v.Secret != "":
		l.applyView(v)
		g.tracker.Alone(time.Now())
	}
}

// applyView puts a view from the control plane in force.
func (l *link) applyView(v feed.View) {
	l.tracker.Follow(time.Now(), v.Providers, l.Client)
	l.mu.Lock()
	first, another := l.view.Secret == "" && v.Secret != "", l.view.Secret != v.Secret
	l.view = v
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	if another {
		l.use(v.Secret)
	}
	if first {
		close(l.ready)
	}
}

// secret is the secret of the egress listener in the last view.
func (l *link) secret() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.Secret
}

// egressSecret is the current secret of the egress listener.
func (c *connections) egressSecret() string {
	if c.link != nil {
		return c.link.secret()
	}
	return c.secret
}

// missing returns the clusters that this node's Envoy lacks, and a channel that is closed when the view changes.
func (l *link) missing(clusters []policy.ProviderID) (absent []policy.ProviderID, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range clusters {
		if !slices.Contains(l.view.Clusters, id) {
			absent = append(absent, id)
		}
	}
	return absent, l.changed
}

// viewFile is the file of the control plane's last view, in the state directory.
const viewFile = "feed.json"

func loadView(h home.Dir) (v feed.View, err error) {
	b, err := os.ReadFile(h.Path(viewFile))
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return feed.View{}, fmt.Errorf("%s: %w", h.Path(viewFile), err)
	}
	return v, nil
}

// awaitLink waits, without a time limit, until the sidecar has a view and Envoy can connect.
func (g *gateway) awaitLink(ctx context.Context, failed chan error) error {
	select {
	case <-g.link.ready:
	default:
		g.log.Info("waiting for the control plane, which has to be heard once", "address", string(g.cfg.Load().XDS.At()))
	}
	select {
	case <-g.link.serving:
		return nil
	case <-ctx.Done():
		return nil // announce drains
	case err := <-failed:
		failed <- nil
		return err
	}
}

// serveExtproc serves this node's Envoy once there is a view. Before that, Envoy itself refuses requests.
func (g *gateway) serveExtproc(ctx context.Context) error {
	if g.link != nil {
		select {
		case <-g.link.ready:
		case <-ctx.Done():
			return nil
		}
	}
	l, err := xds.Listen(ctx, g.sockets.extproc)
	if err != nil {
		return fmt.Errorf("extproc.listen: %w", err)
	}
	if g.link != nil {
		close(g.link.serving)
	}
	return processor.Serve(ctx, g.gate, g.split.Secure(l))
}

// useSecret puts a new secret of the egress listener in force.
func (d *dataPath) useSecret(secret string) {
	d.runtimeMu.Lock()
	defer d.runtimeMu.Unlock()
	if d.gate == nil {
		return // assemble reads it
	}
	rt := *d.runtime
	rt.EgressSecret = secret
	d.runtime = &rt
	d.gate.Use(&rt)
}

// install puts a runtime in force.
func (g *gateway) install(rt *runtime.Config) {
	g.runtimeMu.Lock()
	defer g.runtimeMu.Unlock()
	if g.link != nil {
		rt.EgressSecret = g.link.secret() // it may have changed since rt was assembled
	}
	renewed := changedInRuntime(g.runtime, rt)
	g.runtime = rt
	g.gate.Use(rt)
	g.tracker.Renew(renewed...)
	g.metrics.SetModels(modelIDs(rt))
}

// changedInRuntime are the providers whose address or keys differ between two runtimes. Their health has to be learned again.
func changedInRuntime(before, after *runtime.Config) (ids []policy.ProviderID) {
	for id, now := range after.Providers.All() {
		old, ok := before.Find(id)
		if ok && (old.Cluster != now.Cluster || old.Endpoint.Authority != now.Endpoint.Authority || old.Endpoint.BasePath != now.Endpoint.BasePath ||
			!slices.Equal(old.Keys, now.Keys)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// clusterWarnAfter is how long a configuration waits for Envoy's clusters before a warning is logged.
const clusterWarnAfter = 5 * time.Second

// installWhenReachable puts a runtime in force once this node's Envoy has the clusters that its requests name, without a time limit: before that, requests
// would fail that the previous runtime can serve. A later configuration replaces it.
func (g *gateway) installWhenReachable(ctx context.Context, rt *runtime.Config) {
	var clusters []policy.ProviderID
	for _, p := range rt.Providers.All() {
		clusters = append(clusters, p.Cluster)
	}
	clusters = append(clusters, rt.Hooks...)
	late := time.NewTimer(clusterWarnAfter)
	defer late.Stop()
	for {
		absent, changed := g.link.missing(clusters)
		g.conf.setWaiting(absent)
		if len(absent) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-late.C:
			g.log.Warn("the new configuration waits: the control plane has not given Envoy these providers", "providers", absent)
		}
	}
	g.install(rt)
	g.log.Info("configuration in force")
}

// waitForClusters runs installWhenReachable in the background, replacing an earlier wait. Only reloads call it, one at a time.
func (g *gateway) waitForClusters(ctx context.Context, rt *runtime.Config) {
	g.stopWaitingForClusters()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	g.stopWaiting = func() { cancel(); <-done }
	guard.Go(func() {
		defer close(done)
		g.installWhenReachable(ctx, rt)
	})
}

func (d *dataPath) stopWaitingForClusters() {
	if d.stopWaiting != nil {
		d.stopWaiting()
	}
}

// probe pings a provider, and reports the result to the control plane too. While Envoy is down no request is sent.
func (g *gateway) probe(ctx context.Context, id policy.ProviderID) error {
	err := g.gate.Prober().Probe(ctx, id)
	refusal, refused := errors.AsType[*probe.CredentialRefused](err)
	missed, unmet := errors.AsType[*probe.Unreachable](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist), errors.Is(err, probe.ErrNotAsked):
		return fmt.Errorf("%w: %w", health.ErrNotSent, err)
	case unmet:
		err = &health.Unreached{Reason: missed.Reason}
	case refused:
		err = &health.Refusal{Status: refusal.Status, Reason: refusal.Reason}
	}
	if g.link != nil && !errors.Is(ctx.Err(), context.Canceled) {
		g.link.Ping(id, err)
	}
	return err
}
