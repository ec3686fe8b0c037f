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

// node is one Envoy, and what is known of it.
type node struct {
	local   state.Node
	says    bool // it said what is local to it; else the state knows that
	streams int
	gone    time.Time // when its last stream ended
	applied []policy.ProviderID
	delivery
}

// Set computes the configuration of st and pushes what differs from what is served. st is what all nodes have in common; what it says
// of listeners and of the sidecar holds for Envoys that say nothing of their own. A state that cannot be served changes nothing; a
// node whose own part does not fit it goes on with what it has. Set returns before Envoys have the configuration: see Applied.
func (s *Server) Set(ctx context.Context, st state.State) error {
	err := st.ValidateShared()
	if st.ExtProc.Address != "" || st.HTTP != "" {
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
			s.complain(id, err)
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
	case n.says:
		st = st.At(n.local, s.o.Secret(id))
	case st.ExtProc.Address == "":
		return errors.New("it says nothing of what is local to it: make its bootstrap anew with `bardo bootstrap`")
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

// enter takes a node's first request on a stream: who it is, and what is local to it. A node that comes again, with other words, is the
// same node. A refusal ends the stream, and no other.
func (s *Server) enter(ctx context.Context, c *corev3.Node) (id string, err error) {
	local, says, err := envoy.ParseNode(c)
	id = local.ID
	if err == nil {
		err = peer.Is(ctx, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = s.admit(ctx, local, says)
	}
	if err != nil {
		s.complain(fmt.Sprintf("%.80s", id), err)
		return "", status.Errorf(codes.InvalidArgument, "node %.80q: %v", id, err)
	}
	return id, nil
}

// admit notes a node and pushes its configuration; the caller holds mu.
func (s *Server) admit(ctx context.Context, local state.Node, says bool) error {
	old := s.nodes[local.ID]
	if old == nil && len(s.nodes) >= s.o.MaxNodes && !s.forgetOldest() {
		return fmt.Errorf("there are %d nodes already", len(s.nodes))
	}
	n := &node{local: local, says: says}
	if old != nil && old.local == local && old.says == says {
		n = old // with what it has taken and refused before
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

// complain logs what is wrong with a node, once until it changes; the caller holds mu. Envoys ask again and again.
func (s *Server) complain(id string, err error) {
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
		n.gone = time.Now()
		s.log.Info("envoy disconnected", "node", id)
	}
}

// Providers are those whose clusters a node's Envoy has, as far as it has said.
func (s *Server) Providers(node string) []policy.ProviderID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[node]; n != nil {
		return n.applied
	}
	return nil
}

// sweepUntil forgets nodes that have long gone, until ctx is done.
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
		if n.streams == 0 && now.Sub(n.gone) >= s.o.Forget {
			s.forget(id)
		}
	}
}

// forgetOldest makes room by forgetting the node that has been away longest; the caller holds mu.
func (s *Server) forgetOldest() bool {
	oldest := ""
	for id, n := range s.nodes {
		if n.streams == 0 && (oldest == "" || n.gone.Before(s.nodes[oldest].gone)) {
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
