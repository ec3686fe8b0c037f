package xds

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/peer"
	"bardo.money/gateway/xds/snapshot"
	"bardo.money/gateway/xds/state"
)

// node is one Envoy.
type node struct {
	local          state.Node
	sendsLocal     bool // it sent its local settings; otherwise those of the state apply
	streams        int
	disconnectedAt time.Time // end of its last stream
	applied        []policy.ProviderID
	delivery
}

// Set computes the configuration of st and pushes the differences. st is common to all nodes; its listeners and sidecar apply to Envoys that send
// no local settings. An invalid state changes nothing; a node whose local settings conflict with it keeps its configuration. Set returns before
// Envoys have the configuration: see Applied.
func (s *Server) Set(ctx context.Context, st state.State) error {
	err := st.ValidateShared()
	if st.ExtProc.Address != "" || st.HTTP != "" || st.Module {
		err = st.Validate()
	}
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = &st
	for id, n := range s.nodes {
		if err := s.push(ctx, id, n); err != nil {
			s.logOnce(id, err)
		}
	}
	return nil
}

// push computes one node's configuration and offers it to its streams; the caller holds mu.
func (s *Server) push(ctx context.Context, id string, n *node) error {
	if s.shared == nil {
		return nil
	}
	st := *s.shared
	switch {
	case n.sendsLocal:
		st = st.At(n.local, s.o.Secret(id))
	case st.ExtProc.Address == "" && !st.Module:
		return errors.New("it sends no local settings: recreate its bootstrap with `bardo bootstrap`")
	}
	snap, err := snapshot.Build(st)
	if err != nil {
		return err
	}
	n.pending = nil
	for _, p := range st.Providers {
		n.pending = append(n.pending, p.ID)
	}
	if err := s.offer(ctx, id, n, snap); err != nil {
		return fmt.Errorf("push configuration: %w", err)
	}
	delete(s.lastRefusal, id)
	return nil
}

// connect handles a node's first request on a stream, with its id and local settings. A node that reconnects with other settings is the same
// node. An error ends only this stream.
func (s *Server) connect(ctx context.Context, c *corev3.Node) (id string, err error) {
	local, sends, err := envoy.ParseNode(c)
	id = local.ID
	if err == nil {
		err = peer.Is(ctx, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = s.admit(ctx, local, sends)
	}
	if err != nil {
		s.logOnce(fmt.Sprintf("%.80s", id), err)
		return "", status.Errorf(codes.InvalidArgument, "node %.80q: %v", id, err)
	}
	return id, nil
}

// admit registers a node and pushes its configuration; the caller holds mu.
func (s *Server) admit(ctx context.Context, local state.Node, sends bool) error {
	old := s.nodes[local.ID]
	if old == nil && len(s.nodes) >= s.o.MaxNodes && !s.forgetOldest() {
		return fmt.Errorf("there are %d nodes already", len(s.nodes))
	}
	n := &node{local: local, sendsLocal: sends}
	if old != nil && old.local == local && old.sendsLocal == sends {
		n = old // with its earlier ACKs and NACKs
	}
	if err := s.push(ctx, local.ID, n); err != nil {
		return err
	}
	if old != nil && old != n {
		old.stop()
		n.streams = old.streams
	}
	n.streams++
	s.nodes[local.ID] = n
	if n.streams == 1 {
		s.log.Info("envoy connected", "node", local.ID)
	}
	return nil
}

// logOnce logs a node's error once until it changes, because Envoys retry; the caller holds mu.
func (s *Server) logOnce(id string, err error) {
	if s.lastRefusal[id] == err.Error() {
		return
	}
	if len(s.lastRefusal) > 2*s.o.MaxNodes {
		clear(s.lastRefusal)
	}
	s.lastRefusal[id] = err.Error()
	s.log.Error("a node cannot be served", "node", id, "error", err)
}

func (s *Server) disconnected(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[id]
	if n == nil {
		return
	}
	if n.streams--; n.streams == 0 {
		n.disconnectedAt = time.Now()
		s.log.Info("envoy disconnected", "node", id)
	}
}

// Providers returns the providers whose clusters a node's Envoy has accepted.
func (s *Server) Providers(node string) []policy.ProviderID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[node]; n != nil {
		return n.applied
	}
	return nil
}

// sweepUntil removes nodes that have been disconnected for Options.Forget, until ctx is done.
func (s *Server) sweepUntil(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.sweep(now)
		}
	}
}

func (s *Server) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.nodes {
		if n.streams == 0 && now.Sub(n.disconnectedAt) >= s.o.Forget {
			s.forget(id)
		}
	}
}

// forgetOldest removes the node that has been disconnected longest; the caller holds mu.
func (s *Server) forgetOldest() bool {
	oldest := ""
	for id, n := range s.nodes {
		if n.streams == 0 && (oldest == "" || n.disconnectedAt.Before(s.nodes[oldest].disconnectedAt)) {
			oldest = id
		}
	}
	if oldest == "" {
		return false
	}
	s.forget(oldest)
	return true
}

func (s *Server) forget(id string) {
	if n := s.nodes[id]; n != nil {
		n.stop()
	}
	delete(s.nodes, id)
	s.cache.ClearSnapshot(id)
	s.acks.forget(id)
}
