// Package xds is the control plane's server: it computes the configuration of one or more Envoys from a state and serves it over ADS. The common
// state is set by its owner; each Envoy sends its local settings. It does not know where the state comes from.
package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"bardo.money/gateway/xds/state"
)

// Options of a server. Each field's comment starts with its default.
type Options struct {
	Secret   func(node string) string // secret of a node's egress listener; required if nodes send local settings
	Applied  func(node string)        // nil; called when a node's Envoy has accepted the providers of the last Set
	MaxNodes int                      // 1,000: limit of known nodes
	Forget   time.Duration            // 10 min: how long a disconnected node is kept
	Retry    time.Duration            // 5 s: until a refused configuration is retried; doubled each time, up to 5 min
}

// Server serves the configuration of the last Set. Safe for concurrent use.
type Server struct {
	o     Options
	log   *slog.Logger
	cache cachev3.SnapshotCache
	acks  acks

	mu          sync.Mutex // guards the fields below; locked before that of acks
	shared      *state.State
	nodes       map[string]*node
	lastRefusal map[string]string // last logged error, by node
	serial      uint64            // of the last served configuration, of any node
}

// NewServer returns a server without a state: Envoys that connect wait for the first Set.
func NewServer(log *slog.Logger, o Options) *Server {
	if o.MaxNodes == 0 {
		o.MaxNodes = 1000
	}
	if o.Forget == 0 {
		o.Forget = 10 * time.Minute
	}
	if o.Retry == 0 {
		o.Retry = 5 * time.Second
	}
	s := &Server{
		o: o, log: log, cache: cachev3.NewSnapshotCache(true, byID{}, quiet{log}),
		nodes: map[string]*node{}, lastRefusal: map[string]string{},
	}
	s.acks.log = log
	s.acks.onConnect, s.acks.onDisconnect, s.acks.onApplied, s.acks.onRefused = s.connect, s.disconnected, s.applied, s.refuse
	return s
}

// Applied waits until every connected Envoy, at least one, has accepted or refused the configuration of the last Set. The error names the nodes
// that refused it and why, or is that of ctx.
func (s *Server) Applied(ctx context.Context) error { return s.acks.wait(ctx) }

// Rejections returns the number of pushes that Envoys have refused.
func (s *Server) Rejections() int64 { return s.acks.rejections.Load() }

// Pushes returns the number of answers sent to Envoys.
func (s *Server) Pushes() int64 { return s.acks.pushes.Load() }

// Connected returns the number of connected Envoys.
func (s *Server) Connected() int { return s.acks.connected() }

const (
	stopTime   = 200 * time.Millisecond // grace period of open streams when the server stops
	sweepEvery = time.Minute
	// Certificates are checked when a connection starts, so connections are renewed regularly.
	maxAge, ageGrace = time.Hour, 10 * time.Second
)

// Serve serves l until ctx is done, then closes it and returns nil. secure is nil for plain text. register may add other services.
func (s *Server) Serve(ctx context.Context, l net.Listener, secure *tls.Config, register ...func(grpc.ServiceRegistrar)) error {
	alive := keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}
	var options []grpc.ServerOption
	if secure != nil {
		alive.MaxConnectionAge, alive.MaxConnectionAgeGrace = maxAge, ageGrace
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	options = append(options, grpc.KeepaliveParams(alive),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))
	g := grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, serverv3.NewServer(ctx, s.cache, s.acks.callbacks()))
	for _, r := range register {
		r(g)
	}
	stop := context.AfterFunc(ctx, func() {
		force := time.AfterFunc(stopTime, g.Stop)
		defer force.Stop()
		g.GracefulStop()
	})
	defer stop()
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	swept, end := context.WithCancel(ctx)
	defer end()
	sweeping.Go(func() { s.sweepUntil(swept) })
	defer s.stopRetries()
	err := g.Serve(l)
	if ctx.Err() != nil || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// byID gives each node its own configuration.
type byID struct{}

func (byID) ID(n *corev3.Node) string { return n.GetId() }

// quiet forwards only the cache's warnings.
type quiet struct{ log *slog.Logger }

func (quiet) Debugf(string, ...any)               {}
func (quiet) Infof(string, ...any)                {}
func (q quiet) Warnf(format string, args ...any)  { q.log.Warn(fmt.Sprintf(format, args...)) }
func (q quiet) Errorf(format string, args ...any) { q.log.Error(fmt.Sprintf(format, args...)) }
