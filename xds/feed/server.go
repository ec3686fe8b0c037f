package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/feed/feedpb"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/peer"
	"bardo.money/gateway/xds/state"
)

// ServerOptions are the options of the control plane's end. All but MaxNodes are required.
type ServerOptions struct {
	Tracker  *health.Tracker
	Log      *slog.Logger
	Secret   func(node string) string              // secret of a node's egress listener
	Clusters func(node string) []policy.ProviderID // the providers that a node's Envoy can reach
	MaxNodes int                                   // 0 means 1,000
}

// Server is the control plane's end of the feed. Safe for concurrent use.
type Server struct {
	feedpb.UnimplementedFeedServer
	o       ServerOptions
	results atomic.Int64

	mu       sync.Mutex
	order    []health.Status // last published; nil before the first
	sessions map[string]*session
	refused  map[string]time.Time // when each refusal was logged
}

// session is one sidecar's stream.
type session struct {
	node     string
	wake     chan struct{}  // has one token if there may be something to send
	replaced chan struct{}  // closed when the node reconnects
	claims   map[string]int // trials granted here
	granted  []string       // claims that are not sent yet
	sent     string         // version of the view that was sent
}

// NewServer returns a server that sends nothing before the first Publish.
func NewServer(o ServerOptions) *Server {
	if o.MaxNodes == 0 {
		o.MaxNodes = 1000
	}
	return &Server{o: o, sessions: map[string]*session{}, refused: map[string]time.Time{}}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { feedpb.RegisterFeedServer(r, s) }

// Connected returns the number of connected sidecars.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Results returns the number of reported results and pings.
func (s *Server) Results() int64 { return s.results.Load() }

// Publish sends the providers in order to all sidecars that do not have this view.
func (s *Server) Publish(order []health.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = append([]health.Status{}, order...)
	for _, one := range s.sessions {
		one.notify()
	}
}

// Refresh recomputes which providers a node's Envoy can reach.
func (s *Server) Refresh(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.sessions[node]; one != nil {
		one.notify()
	}
}

// notify wakes the sender without blocking.
func (s *session) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// helloTime is the timeout of a sidecar's first message.
const helloTime = 5 * time.Second

// Connect implements the service.
func (s *Server) Connect(stream feedpb.Feed_ConnectServer) error {
	reports := make(chan *feedpb.Report)
	ended := make(chan error, 1)
	go func() { ended <- receive(stream, reports) }() // ends with the stream, which ends when Connect returns
	one, err := s.enter(stream.Context(), reports, ended)
	if err != nil {
		s.logRefusal(err)
		return status.Error(codes.InvalidArgument, err.Error())
	}
	defer s.disconnected(one)
	for {
		select {
		case r := <-reports:
			s.take(one, r)
		case <-one.wake:
			if err := s.sendUpdates(one, stream); err != nil {
				return err
			}
		case <-one.replaced:
			return status.Errorf(codes.Aborted, "node %s has connected again", one.node)
		case err := <-ended:
			return err
		}
	}
}

// logRefusal logs a refusal once, although the sidecar retries.
func (s *Server) logRefusal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.refused[err.Error()]) < logInterval {
		return
	}
	if len(s.refused) >= s.o.MaxNodes {
		clear(s.refused)
	}
	s.refused[err.Error()] = time.Now()
	s.o.Log.Error("a sidecar cannot be served", "error", err)
}

func receive(stream feedpb.Feed_ConnectServer, reports chan<- *feedpb.Report) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case reports <- r:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// enter waits for a sidecar's hello and registers it.
func (s *Server) enter(ctx context.Context, reports <-chan *feedpb.Report, ended <-chan error) (*session, error) {
	late := time.NewTimer(helloTime)
	defer late.Stop()
	var hello *feedpb.Hello
	select {
	case r := <-reports:
		hello = r.GetHello()
	case err := <-ended:
		return nil, fmt.Errorf("it left without a hello: %w", errors.Join(err, io.EOF))
	case <-late.C:
	}
	if hello == nil {
		return nil, errors.New("it did not begin with a hello")
	}
	node := hello.GetNode()
	if err := errors.Join(state.ValidateNodeID(node), peer.Is(ctx, node)); err != nil {
		return nil, fmt.Errorf("node %.80q: %w", node, err)
	}
	return s.admit(node, hello.GetVersion())
}

func (s *Server) admit(node, version string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.sessions[node]
	if old == nil && len(s.sessions) >= s.o.MaxNodes {
		return nil, fmt.Errorf("node %s: there are %d nodes already", node, len(s.sessions))
	}
	if old != nil {
		s.o.Log.Warn("a sidecar connected again while it was connected; do two have one name?", "node", node)
		close(old.replaced)
	}
	one := &session{node: node, wake: make(chan struct{}, 1), replaced: make(chan struct{}), claims: map[string]int{}}
	s.sessions[node] = one
	one.notify()
	s.o.Log.Info("sidecar connected", "node", node, "version", fmt.Sprintf("%.40s", version))
	return one, nil
}

// disconnected releases a sidecar's claims and its session.
func (s *Server) disconnected(one *session) {
	for p, claim := range one.claims {
		s.o.Tracker.Release(policy.ProviderID(p), claim)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[one.node] != one {
		return // it has already reconnected
	}
	delete(s.sessions, one.node)
	s.o.Tracker.Forget(one.node)
	s.o.Log.Info("sidecar disconnected", "node", one.node)
}

// take records a report.
func (s *Server) take(one *session, r *feedpb.Report) {
	now := time.Now()
	for _, res := range r.GetResults() {
		s.o.Tracker.Report(now, decodeResult(res))
	}
	for _, p := range r.GetPings() {
		s.o.Tracker.PingFrom(now, one.node, policy.ProviderID(p.GetProvider()), decodePing(p))
	}
	s.results.Add(int64(len(r.GetResults()) + len(r.GetPings())))
	for _, p := range r.GetReturned() {
		if claim, ok := one.claims[p]; ok {
			delete(one.claims, p)
			s.o.Tracker.Release(policy.ProviderID(p), claim)
		}
	}
	for _, p := range r.GetWanted() {
		if _, held := one.claims[p]; held {
			continue
		}
		if claim, ok := s.o.Tracker.Claim(now, policy.ProviderID(p)); ok {
			one.claims[p] = claim
			one.granted = append(one.granted, p)
			one.notify()
		}
	}
}

var errPing = errors.New("a sidecar's ping failed")

// sendUpdates sends a sidecar the view and grants that it does not have yet.
func (s *Server) sendUpdates(one *session, stream feedpb.Feed_ConnectServer) error {
	u := &feedpb.Update{Granted: one.granted}
	s.mu.Lock()
	order := s.order
	s.mu.Unlock()
	if order != nil {
		v := encode(time.Now(), View{Secret: s.o.Secret(one.node), Providers: order, Clusters: s.o.Clusters(one.node)})
		if v.GetVersion() != one.sent {
			u.View, one.sent = v, v.GetVersion()
		}
	}
	if u.GetView() == nil && len(u.GetGranted()) == 0 {
		return nil
	}
	one.granted = nil
	return stream.Send(u)
}
