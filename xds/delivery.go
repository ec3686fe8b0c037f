package xds

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"bardo.money/gateway/policy"
)

// delivery is what one Envoy should have, and what it is sent. Envoy may have applied a part of what it refuses. So after a refusal the last
// configuration that it took whole is sent again, and the refused one is offered again later: its cause may have been removed.
type delivery struct {
	wanted  *cachev3.Snapshot   // of the state that was set last
	pending []policy.ProviderID // the providers of wanted
	served  *cachev3.Snapshot   // what the cache answers with: wanted or good
	serial  uint64              // of served: each is another number
	good    *cachev3.Snapshot   // the last one that was taken whole; nil before

	refused  versions    // of the contents that were refused; nil if what is wanted is served
	failures int         // refusals of what is wanted, in a row
	due      time.Time   // of the next attempt
	retry    *time.Timer // nil if none is scheduled
}

// maxRetry bounds the time until what was refused is offered again.
const maxRetry = 5 * time.Minute

// offer makes snap the configuration that a node should have, and serves it. Content that the node has refused waits for the next attempt. The
// caller holds mu.
func (s *Server) offer(ctx context.Context, id string, n *node, snap *cachev3.Snapshot) error {
	switch {
	case n.wanted != nil && maps.Equal(versionsOf(n.wanted), versionsOf(snap)):
		return nil
	case n.hasRefused(snap):
		n.wanted = snap
		return nil
	}
	n.wanted, n.refused, n.failures = snap, nil, 0
	n.stop()
	s.acks.want(id, snap, true)
	return s.serve(ctx, id, n, snap)
}

// hasRefused reports whether snap has content that was refused.
func (d *delivery) hasRefused(snap *cachev3.Snapshot) bool {
	for kind, content := range d.refused {
		if snap.GetVersion(kind) == content {
			return true
		}
	}
	return false
}

// serve has the cache answer a node's streams with snap; the caller holds mu.
func (s *Server) serve(ctx context.Context, id string, n *node, snap *cachev3.Snapshot) error {
	s.serial++
	n.served, n.serial = snap, s.serial
	s.acks.serve(id, snap, n.serial)
	return s.cache.SetSnapshot(ctx, id, snap)
}

// took notes that a node's Envoy has the whole of what was served under a number.
func (s *Server) took(id string, serial uint64) {
	s.mu.Lock()
	n := s.nodes[id]
	if n == nil || n.serial != serial || n.served == n.good {
		s.mu.Unlock()
		return
	}
	if n.refused != nil {
		s.acks.want(id, n.wanted, true)
		s.log.Info("envoy has taken what it had refused", "node", id)
	}
	n.good, n.refused, n.failures = n.served, nil, 0
	news := !slices.Equal(n.applied, n.pending)
	n.applied = n.pending
	s.mu.Unlock()
	if news && s.o.Applied != nil {
		s.o.Applied(id)
	}
}

// refuse rolls a node back to its last good configuration, and schedules the next attempt. A refusal of what is no longer served changes
// nothing.
func (s *Server) refuse(id string, kind resourcev3.Type, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[id]
	if n == nil || n.served.GetVersion(kind) != version {
		return
	}
	if n.retry != nil { // the next attempt is scheduled
		s.log.Error("envoy refuses its last good configuration too", "node", id)
		return
	}
	n.failures++
	n.refused = versions{kind: contentOf(version)}
	wait := backOff(s.o.Retry, n.failures)
	n.due, n.retry = time.Now().Add(wait), time.AfterFunc(wait, func() { s.offerAgain(id, n) })
	if n.good == nil || contentOf(n.good.GetVersion(kind)) == contentOf(version) {
		s.log.Error("envoy has no last good configuration", "node", id, "retry_in", wait.String())
		return
	}
	s.log.Warn("envoy is rolled back to its last good configuration", "node", id, "retry_in", wait.String())
	s.restore(id, n)
}

// restore serves a node its last good configuration; the caller holds mu.
func (s *Server) restore(id string, n *node) {
	if err := s.serve(context.Background(), id, n, n.good); err != nil {
		s.complain(id, err)
	}
}

// backOff is the time until the next attempt after this many refusals in a row.
func backOff(first time.Duration, failures int) time.Duration {
	return min(first<<min(failures-1, 20), max(maxRetry, first))
}

// offerAgain offers a node what it refused.
func (s *Server) offerAgain(id string, n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[id] != n || n.retry == nil {
		return
	}
	n.stop()
	s.acks.want(id, n.wanted, false)
	s.attempt(id, n)
}

// attempt serves a node the wanted configuration, the refused parts under new versions: the cache does not send a version twice. The caller
// holds mu.
func (s *Server) attempt(id string, n *node) {
	if err := s.serve(context.Background(), id, n, relabelled(n.wanted, n.refused, s.serial)); err != nil {
		s.complain(id, err)
	}
}

// relabelled is a snapshot whose refused content has the number of an attempt in its version.
func relabelled(snap *cachev3.Snapshot, refused versions, attempt uint64) *cachev3.Snapshot {
	out := *snap
	for kind, content := range refused {
		if at := cachev3.GetResponseType(kind); snap.GetVersion(kind) == content {
			out.Resources[at].Version = content + attemptMark + strconv.FormatUint(attempt, 10)
		}
	}
	return &out
}

// stop ends the wait for the next attempt.
func (d *delivery) stop() {
	if d.retry != nil {
		d.retry.Stop()
		d.retry = nil
	}
}

func (s *Server) stopRetries() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.stop()
	}
}

// Retry offers to Envoys immediately what they refused, as if it were new. Applied then waits for their answer.
func (s *Server) Retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.nodes {
		if n.refused == nil {
			continue
		}
		n.stop()
		s.acks.want(id, n.wanted, true)
		s.attempt(id, n)
		n.failures = 0
	}
}

// Refusal says that one Envoy refused the configuration of the last Set, and keeps the one before.
type Refusal struct {
	Node   string    `json:"node"`
	Reason string    `json:"reason"`
	Retry  time.Time `json:"retry_at"`
}

// Refusals are those of known Envoys, sorted by node.
func (s *Server) Refusals() []Refusal {
	reasons := s.acks.reasons()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Refusal
	for _, id := range slices.Sorted(maps.Keys(reasons)) {
		if n := s.nodes[id]; n != nil {
			out = append(out, Refusal{Node: id, Reason: reasons[id], Retry: n.due})
		}
	}
	return out
}
