// Package xds is the control plane's server: it computes Envoys' configuration from a state and serves it over ADS, to one Envoy or
// many. What all have in common is set by its owner; what is local to each, the Envoy says itself. It does not know where the state
// comes from.
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

// Options of a server. Zero means what stands beside each.
type Options struct {
	Secret   func(node string) string // what calls through a node's egress listener must carry; needed if nodes say what is local to them
	Applied  func(node string)        // nil; called when a node's Envoy has taken the providers of the last Set
	MaxNodes int                      // 1,000 nodes are known at once
	Forget   time.Duration            // 10 min: how long a node that has gone is known
	Retry    time.Duration            // 5 s: until what a node refused is offered to it again; doubled each time, up to 5 min
}

// Server serves the configuration of the state that was set last. Safe for concurrent use.
type Server struct {
	o     Options
	log   *slog.Logger
	cache cachev3.SnapshotCache
	acks  acks

	mu          sync.Mutex // guards what follows; taken before that of acks
	shared      *state.State
	nodes       map[string]*node
	lastRefusal map[string]string // the last complaint about a node
	serial      uint64            // of what was served last, to any node
}

// NewServer makes a server without a state: Envoys that connect wait for the first one.
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
	s.acks.enter, s.acks.leave, s.acks.took, s.acks.refused = s.enter, s.disconnected, s.took, s.refuse
	return s
}

// Applied waits until every connected Envoy, at least one, has taken or refused the configuration of the last Set. It fails when one
// of them has refused it, saying which and why, and when ctx is done.
func (s *Server) Applied(ctx context.Context) error { return s.acks.wait(ctx) }

// Rejections is how many pushes Envoys have refused.
func (s *Server) Rejections() int64 { return s.acks.rejections.Load() }

// Pushes is how many answers were sent to Envoys.
func (s *Server) Pushes() int64 { return s.acks.pushes.Load() }

// Connected is how many Envoys are connected.
func (s *Server) Connected() int { return s.acks.connected() }

const (
	stopTime   = 200 * time.Millisecond // how long streams, which have no end of their own, may keep the server from stopping
	sweepEvery = time.Minute
	// Who is at the other end was true when the connection began; so it must begin again now and then.
	maxAge, ageGrace = time.Hour, 10 * time.Second
)

// Serve answers on l until ctx is done, then closes it and returns nil. secure is nil for plain text. Other services may register
// beside ADS.
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

// byID gives every node a configuration of its own.
type byID struct{}

func (byID) ID(n *corev3.Node) string { return n.GetId() }

// quiet passes the cache's warnings on.
type quiet struct{ log *slog.Logger }

func (quiet) Debugf(string, ...any)               {}
func (quiet) Infof(string, ...any)                {}
func (q quiet) Warnf(format string, args ...any)  { q.log.Warn(fmt.Sprintf(format, args...)) }
func (q quiet) Errorf(format string, args ...any) { q.log.Error(fmt.Sprintf(format, args...)) }
