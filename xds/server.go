// Package xds is the control plane's server: it computes Envoy's configuration from a state and serves it over ADS, to
// one Envoy or many. It does not know where the state comes from.
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

	"bardo.money/gateway/xds/snapshot"
	"bardo.money/gateway/xds/state"
)

// Server serves the configuration of the state that was set last. Safe for concurrent use.
type Server struct {
	log   *slog.Logger
	cache cachev3.SnapshotCache
	acks  acks

	setting sync.Mutex // one Set at a time, so that the cache and acks agree
}

// NewServer makes a server without a state: Envoys that connect wait for the first one.
func NewServer(log *slog.Logger) *Server {
	s := &Server{log: log, cache: cachev3.NewSnapshotCache(true, oneNode{}, quiet{log})}
	s.acks.log = log
	return s
}

// Set computes the configuration of st and pushes what differs from what is served. A state that cannot be served
// changes nothing. It returns before Envoy has the configuration: see Applied.
func (s *Server) Set(ctx context.Context, st state.State) error {
	s.setting.Lock()
	defer s.setting.Unlock()
	snap, err := snapshot.Build(st)
	if err != nil {
		return err
	}
	s.acks.want(snap)
	if err := s.cache.SetSnapshot(ctx, state.NodeID, snap); err != nil {
		return fmt.Errorf("push configuration: %w", err)
	}
	return nil
}

// Applied waits until every connected Envoy, at least one, has taken the configuration of the last Set. It fails when
// one of them refuses it, and when ctx is done.
func (s *Server) Applied(ctx context.Context) error { return s.acks.wait(ctx) }

// Rejections is how many pushes Envoys have refused.
func (s *Server) Rejections() int64 { return s.acks.rejections.Load() }

// Connected is how many Envoys are connected.
func (s *Server) Connected() int { return s.acks.connected() }

// stopTime is how long streams, which have no end of their own, may keep the server from stopping.
const stopTime = 200 * time.Millisecond

// Serve answers on l until ctx is done, then closes it and returns nil. secure is nil for plain text.
func (s *Server) Serve(ctx context.Context, l net.Listener, secure *tls.Config) error {
	options := []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	g := grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, serverv3.NewServer(ctx, s.cache, s.acks.callbacks()))
	stop := context.AfterFunc(ctx, func() {
		force := time.AfterFunc(stopTime, g.Stop)
		defer force.Stop()
		g.GracefulStop()
	})
	defer stop()
	err := g.Serve(l)
	if ctx.Err() != nil || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// oneNode gives every Envoy the same configuration.
type oneNode struct{}

func (oneNode) ID(*corev3.Node) string { return state.NodeID }

// quiet passes the cache's warnings on.
type quiet struct{ log *slog.Logger }

func (quiet) Debugf(string, ...any)               {}
func (quiet) Infof(string, ...any)                {}
func (q quiet) Warnf(format string, args ...any)  { q.log.Warn(fmt.Sprintf(format, args...)) }
func (q quiet) Errorf(format string, args ...any) { q.log.Error(fmt.Sprintf(format, args...)) }
