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

// delivery is one Envoy's wanted and served configuration. Envoy may have applied part of a configuration that it refuses. So after a refusal
// the last accepted configuration is sent again, and the refused one is retried later.
type delivery struct {
	wanted  *cachev3.Snapshot   // of the state that was set last
	pending []policy.ProviderID // the providers of wanted
	served  *cachev3.Snapshot   // served by the cache: wanted or good
	serial  uint64              // unique number of served
	good    *cachev3.Snapshot   // the last accepted configuration; nil if none

	refused  versions    // of refused contents; nil if wanted is served
	failures int         // consecutive refusals of wanted
	due      time.Time   // of the next attempt
	retry    *time.Timer // nil if none is scheduled
}

// maxRetry is the longest time until a refused configuration is retried.
const maxRetry = 5 * time.Minute

// offer makes snap the wanted configuration of a node and serves it. Content that the node has refused waits for the next attempt. The caller
// holds mu.
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
	s.acks.setWanted(id, snap, true)
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

// serve puts snap into the cache for a node; the caller holds mu.
func (s *Server) serve(ctx context.Context, id string, n *node, snap *cachev3.Snapshot) error {
	s.serial++
	n.served, n.serial = snap, s.serial
	s.acks.serve(id, snap, n.serial)
	return s.cache.SetSnapshot(ctx, id, snap)
}

// applied records that a node's Envoy has accepted everything that was served under a serial.
func (s *Server) applied(id string, serial uint64) {
	s.mu.Lock()
	n := s.nodes[id]
	if n == nil || n.serial != serial || n.served == n.good {
		s.mu.Unlock()
		return
	}
	if n.refused != nil {
		s.acks.setWanted(id, n.wanted, true)
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

// refuse rolls a node back to its last good configuration and schedules the next attempt. A refusal of a version that is no longer served is
// ignored.
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
	n.refused = versions{kind: contentHash(version)}
	wait := backOff(s.o.Retry, n.failures)
	n.due, n.retry = time.Now().Add(wait), time.AfterFunc(wait, func() { s.offerAgain(id, n) })
	if n.good == nil || contentHash(n.good.GetVersion(kind)) == contentHash(version) {
		s.log.Error("envoy has no last good configuration", "node", id, "retry_in", wait.String())
		return
	}
	s.log.Warn("envoy is rolled back to its last good configuration", "node", id, "retry_in", wait.String())
	s.restore(id, n)
}

// restore serves a node its last good configuration; the caller holds mu.
func (s *Server) restore(id string, n *node) {
	if err := s.serve(context.Background(), id, n, n.good); err != nil {
		s.logOnce(id, err)
	}
}

// backOff returns the time until the next attempt after this many refusals in a row.
func backOff(first time.Duration, failures int) time.Duration {
	return min(first<<min(failures-1, 20), max(maxRetry, first))
}

// offerAgain retries a refused configuration.
func (s *Server) offerAgain(id string, n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[id] != n || n.retry == nil {
		return
	}
	n.stop()
	s.acks.setWanted(id, n.wanted, false)
	s.attempt(id, n)
}

// attempt serves a node the wanted configuration, the refused parts under new versions: the cache does not send a version twice. The caller
// holds mu.
func (s *Server) attempt(id string, n *node) {
	if err := s.serve(context.Background(), id, n, withAttempt(n.wanted, n.refused, s.serial)); err != nil {
		s.logOnce(id, err)
	}
}

// withAttempt returns a snapshot with the attempt number in the versions of refused content.
func withAttempt(snap *cachev3.Snapshot, refused versions, attempt uint64) *cachev3.Snapshot {
	out := *snap
	for kind, content := range refused {
		if at := cachev3.GetResponseType(kind); snap.GetVersion(kind) == content {
			out.Resources[at].Version = content + attemptMark + strconv.FormatUint(attempt, 10)
		}
	}
	return &out
}

// stop cancels the next attempt.
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

// Retry immediately retries refused configurations, as if they were new. Applied then waits for the result.
func (s *Server) Retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.nodes {
		if n.refused == nil {
			continue
		}
		n.stop()
		s.acks.setWanted(id, n.wanted, true)
		s.attempt(id, n)
		n.failures = 0
	}
}

// Refusal means that an Envoy refused the configuration of the last Set and keeps the previous one.
type Refusal struct {
	Node   string    `json:"node"`
	Reason string    `json:"reason"`
	Retry  time.Time `json:"retry_at"`
}

// Refusals returns the refusals of known Envoys, sorted by node.
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
