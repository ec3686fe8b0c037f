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

// link is a sidecar's side of a split gateway: the last view from the control plane, and who waits for it.
type link struct {
	*feed.Client
	home    home.Dir
	tracker *health.Tracker
	use     func(secret string)
	ready   chan struct{} // closed once there is something to serve with
	serving chan struct{} // closed once Envoy can connect to this process

	mu      sync.Mutex
	view    feed.View
	changed chan struct{} // closed, and made anew, when view is another one
}

// openLink makes the link to the control plane. The view that the sidecar before this one received holds until the next one comes.
func (g *gateway) openLink() {
	l := &link{home: g.home, tracker: g.tracker, use: g.useSecret, ready: make(chan struct{}), serving: make(chan struct{}), changed: make(chan struct{})}
	at := string(g.cfg.Load().XDS.At())
	if g.inside {
		at = g.sockets.xds
	}
	l.Client = feed.NewClient(feed.ClientOptions{
		Node: g.split.node, Version: cli.Version, Address: at, Secure: g.split.toPlane(), Check: g.split.check, Log: g.log,
		Heard: func(v feed.View) {
			l.take(v)
			if g.inside {
				return // the control plane lives as long
			}
			if err := g.home.Keep(keptView, v); err != nil {
				g.log.Error("the control plane's word was not kept", "error", err)
			}
		},
		Granted: g.tracker.Grant, Revoke: g.tracker.Revoke,
		Lost: func() { g.tracker.Alone(time.Now()) },
	})
	g.metrics.WatchFeed(func() (bool, uint64) { return l.Connected(), l.Dropped() })
	g.link = l
	if g.inside {
		l.view.Secret = g.secret
		close(l.ready)
		return
	}
	v, err := lastView(g.home)
	switch {
	case err != nil:
		g.log.Warn("what the control plane said last cannot be read", "error", err)
	case v.Secret != "":
		l.take(v)
		g.tracker.Alone(time.Now())
	}
}

// take puts the control plane's word in force.
func (l *link) take(v feed.View) {
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

// secret is what calls through the egress listener must carry, from the control plane's last view.
func (l *link) secret() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.Secret
}

// egressSecret is what calls through the egress listener must carry now.
func (c *connections) egressSecret() string {
	if c.link != nil {
		return c.link.secret()
	}
	return c.secret
}

// missing are those of the clusters that this node's Envoy does not have, and what to wait for.
func (l *link) missing(clusters []policy.ProviderID) (lacks []policy.ProviderID, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range clusters {
		if !slices.Contains(l.view.Clusters, id) {
			lacks = append(lacks, id)
		}
	}
	return lacks, l.changed
}

// keptView is the file of the control plane's last view.
const keptView = "feed.json"

func lastView(h home.Dir) (v feed.View, err error) {
	b, err := os.ReadFile(h.Path(keptView))
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return feed.View{}, fmt.Errorf("%s: %w", h.Path(keptView), err)
	}
	return v, nil
}

// awaitLink waits until there is something to serve with, as long as it takes, and Envoy can connect.
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

// serveExtproc serves this node's Envoy once there is something to serve with: before that, Envoy refuses by itself.
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
	return processor.Serve(ctx, g.gate, g.split.secure(l))
}

// useSecret puts another egress secret in force.
func (d *dataPath) useSecret(secret string) {
	d.using.Lock()
	defer d.using.Unlock()
	if d.gate == nil {
		return // it is assembled with it
	}
	rt := *d.runtime
	rt.EgressSecret = secret
	d.runtime = &rt
	d.gate.Use(&rt)
}

// install puts a runtime in force.
func (g *gateway) install(rt *runtime.Config) {
	g.using.Lock()
	defer g.using.Unlock()
	if g.link != nil {
		rt.EgressSecret = g.link.secret() // it may be another one since rt was made
	}
	renewed := otherwiseReached(g.runtime, rt)
	g.runtime = rt
	g.gate.Use(rt)
	g.tracker.Renew(renewed...)
	g.metrics.SetModels(modelIDs(rt))
}

// otherwiseReached are the providers whose address or keys a new runtime changes: what is known of their health is of no use any more.
func otherwiseReached(before, after *runtime.Config) (ids []policy.ProviderID) {
	for id, now := range after.Providers.All() {
		old, ok := before.Find(id)
		if ok && (old.Cluster != now.Cluster || old.Endpoint.Authority != now.Endpoint.Authority || old.Endpoint.BasePath != now.Endpoint.BasePath ||
			!slices.Equal(old.Keys, now.Keys)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// patience is how long a configuration waits for Envoy before the log says so.
const patience = 5 * time.Second

// useWhenReachable puts a runtime in force once this node's Envoy has the clusters that its requests will name, however long that takes:
// without them requests would fail that the runtime before can serve. A later configuration takes its place.
func (g *gateway) useWhenReachable(ctx context.Context, rt *runtime.Config) {
	var clusters []policy.ProviderID
	for _, p := range rt.Providers.All() {
		clusters = append(clusters, p.Cluster)
	}
	clusters = append(clusters, rt.Hooks...)
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		lacks, changed := g.link.missing(clusters)
		g.conf.waitFor(lacks)
		if len(lacks) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-late.C:
			g.log.Warn("the new configuration waits: the control plane has not given Envoy these providers", "providers", lacks)
		}
	}
	g.install(rt)
	g.log.Info("configuration in force")
}

// replaceWaiting has a runtime wait for its clusters in place of one that may still do so. Only reloads call it, one at a time.
func (g *gateway) replaceWaiting(ctx context.Context, rt *runtime.Config) {
	g.endWaiting()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	g.stopWaiting = func() { cancel(); <-done }
	guard.Go(func() {
		defer close(done)
		g.useWhenReachable(ctx, rt)
	})
}

func (d *dataPath) endWaiting() {
	if d.stopWaiting != nil {
		d.stopWaiting()
	}
}

// probe pings a provider, and reports the result to the control plane too. While Envoy is away no request is sent.
func (g *gateway) probe(ctx context.Context, id policy.ProviderID) error {
	err := g.gate.Prober().Probe(ctx, id)
	refusal, refused := errors.AsType[*probe.CredentialRefused](err)
	missed, unmet := errors.AsType[*probe.Unreachable](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist), errors.Is(err, probe.ErrNotAsked):
		return fmt.Errorf("%w: %w", health.ErrNotAsked, err)
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
