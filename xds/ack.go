package xds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
)

// acks tracks the wanted and the served versions, and which of them each connected Envoy has accepted (ACK) or refused (NACK). Its functions
// must be set.
type acks struct {
	log          *slog.Logger
	rejections   atomic.Int64
	pushes       atomic.Int64
	onConnect    func(context.Context, *corev3.Node) (id string, err error) // called for a stream's first request
	onDisconnect func(id string)
	onApplied    func(id string, serial uint64)                        // called when a node's Envoy has accepted everything that was served under this serial
	onRefused    func(id string, kind resourcev3.Type, version string) // called when a node's Envoy refused this version

	mu      sync.Mutex
	targets map[string]*target // by node
	streams map[int64]*stream
	changed chan struct{} // closed and replaced when anything above changes
}

// target is a node's wanted versions and those that are served to it. Only kinds with resources count: Envoy requests no others.
type target struct {
	wanted  versions                   // of the last Set
	refused map[resourcev3.Type]string // reasons, by kind, of the wanted versions
	served  versions
	serial  uint64 // of the served versions
}

type versions = map[resourcev3.Type]string

// stream is one connected Envoy, which its first request identifies.
type stream struct {
	node  string
	enter func(*corev3.Node) (id string, err error)
	sent  map[resourcev3.Type]answer
	taken versions
}

type answer struct{ nonce, version string }

var kinds = []resourcev3.Type{
	resourcev3.ClusterType, resourcev3.ListenerType, resourcev3.RouteType, resourcev3.SecretType,
}

func versionsOf(snap *cachev3.Snapshot) versions {
	out := make(versions, len(kinds))
	for _, kind := range kinds {
		if len(snap.GetResources(kind)) > 0 {
			out[kind] = snap.GetVersion(kind)
		}
	}
	return out
}

// attemptMark separates a version's content hash from the attempt number, if the same content is sent several times.
const attemptMark = "~"

// contentHash returns a version without the number of its attempt.
func contentHash(version string) string {
	content, _, _ := strings.Cut(version, attemptMark)
	return content
}

// setWanted sets a node's wanted versions. With afresh, its refusals are cleared.
func (a *acks) setWanted(node string, snap *cachev3.Snapshot, afresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.target(node)
	t.wanted = versionsOf(snap)
	if afresh {
		clear(t.refused)
	}
	a.notify()
}

// serve sets the versions that are served to a node.
func (a *acks) serve(node string, snap *cachev3.Snapshot, serial uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.target(node)
	t.served, t.serial = versionsOf(snap), serial
}

// target returns a node's target; the caller holds mu.
func (a *acks) target(node string) *target {
	if a.targets == nil {
		a.targets = map[string]*target{}
	}
	if a.targets[node] == nil {
		a.targets[node] = &target{refused: map[resourcev3.Type]string{}}
	}
	return a.targets[node]
}

func (a *acks) forget(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.targets, node)
}

func (a *acks) wait(ctx context.Context) error {
	for {
		done, changed, err := a.state()
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("envoy has not taken the configuration: %w", ctx.Err()))
		case <-changed:
		}
	}
}

// state reports whether every connected Envoy, at least one, has accepted or refused the wanted versions; an error with the refusals; and a
// channel to wait on otherwise.
func (a *acks) state() (done bool, changed <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	done = true
	refusals := map[string]error{}
	known := 0
	for _, s := range a.streams {
		if s.node == "" {
			continue
		}
		known++
		t := a.targets[s.node]
		if t == nil {
			done = false
			continue
		}
		if why := t.reason(); why != "" {
			refusals[s.node] = fmt.Errorf("envoy %s refused the configuration: %s", s.node, why)
			continue
		}
		done = done && t.wanted != nil && s.has(t.wanted, contentHash)
	}
	var errs []error
	for _, node := range slices.Sorted(maps.Keys(refusals)) {
		errs = append(errs, refusals[node])
	}
	return done && known > 0, a.changed, errors.Join(errs...)
}

// has reports whether an Envoy has accepted these versions; same returns the part of a version that is compared.
func (s *stream) has(all versions, same func(string) string) bool {
	for kind, version := range all {
		if same(s.taken[kind]) != same(version) {
			return false
		}
	}
	return true
}

// reason returns why the wanted versions were refused; "" if they were not.
func (t *target) reason() string {
	var all []string
	for _, kind := range kinds {
		if why, ok := t.refused[kind]; ok {
			all = append(all, cmp.Or(why, "it does not say why"))
		}
	}
	return strings.Join(all, "; ")
}

// reasons returns the reasons of refusals, by node.
func (a *acks) reasons() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]string{}
	for node, t := range a.targets {
		if why := t.reason(); why != "" {
			out[node] = why
		}
	}
	return out
}

func (a *acks) connected() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, s := range a.streams {
		if s.node != "" {
			n++
		}
	}
	return n
}

// notify wakes all waiters; the caller holds mu.
func (a *acks) notify() {
	if a.changed != nil {
		close(a.changed)
	}
	a.changed = make(chan struct{})
}

func (a *acks) callbacks() serverv3.Callbacks {
	return serverv3.CallbackFuncs{
		StreamOpenFunc:     a.open,
		StreamClosedFunc:   func(id int64, _ *corev3.Node) { a.closed(id) },
		StreamRequestFunc:  a.request,
		StreamResponseFunc: a.response,
	}
}

func (a *acks) open(ctx context.Context, id int64, _ string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams == nil {
		a.streams = make(map[int64]*stream)
	}
	a.streams[id] = &stream{
		enter: func(n *corev3.Node) (string, error) { return a.onConnect(ctx, n) },
		sent:  make(map[resourcev3.Type]answer),
		taken: make(versions),
	}
	a.notify()
	return nil
}

func (a *acks) closed(id int64) {
	a.mu.Lock()
	node := ""
	if s := a.streams[id]; s != nil {
		node = s.node
	}
	delete(a.streams, id)
	a.notify()
	a.mu.Unlock()
	if node != "" {
		a.onDisconnect(node)
	}
}

func (a *acks) response(_ context.Context, id int64, _ *discoveryv3.DiscoveryRequest, r *discoveryv3.DiscoveryResponse) {
	a.pushes.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.streams[id]; s != nil {
		s.sent[r.GetTypeUrl()] = answer{nonce: r.GetNonce(), version: r.GetVersionInfo()}
	}
}

// request handles an Envoy's ACK or NACK of the last answer. The first request of a stream identifies the node.
func (a *acks) request(id int64, r *discoveryv3.DiscoveryRequest) error {
	node, err := a.nodeOf(id, r.GetNode())
	if err != nil {
		return err
	}
	kind := r.GetTypeUrl()
	version, serial := a.record(id, r)
	switch {
	case version != "":
		// The cache answers a request for another version immediately. So the refused version counts as the one that Envoy has, and is not sent
		// again.
		r.VersionInfo = version
		a.onRefused(node, kind, version)
	case serial > 0:
		a.onApplied(node, serial)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notify() // last, so that waiters see the consequences
	return nil
}

// nodeOf returns the node of a stream.
func (a *acks) nodeOf(id int64, n *corev3.Node) (string, error) {
	a.mu.Lock()
	s := a.streams[id]
	a.mu.Unlock()
	switch {
	case s == nil:
		return "", errors.New("the stream is closed")
	case s.node == n.GetId() && s.node != "":
		return s.node, nil
	case s.node != "":
		return "", fmt.Errorf("node %s turned into another one", s.node)
	}
	node, err := s.enter(n)
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.node = node
	return node, nil
}

// maxReason limits a reason that is stored and logged, in characters.
const maxReason = 1000

// record records an Envoy's reply. It returns the version that Envoy refused, "" if none, and the serial of the served configuration if Envoy has
// accepted all of it. A reply is matched by nonce: one to an earlier answer does not count for the last one.
func (a *acks) record(id int64, r *discoveryv3.DiscoveryRequest) (refused string, serial uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.streams[id]
	if s == nil {
		return "", 0
	}
	kind := r.GetTypeUrl()
	s.taken[kind] = r.GetVersionInfo()
	sent, t := s.sent[kind], a.target(s.node)
	if sent.nonce == "" || r.GetResponseNonce() != sent.nonce {
		return "", 0
	}
	wanted := contentHash(sent.version) == t.wanted[kind]
	if detail := r.GetErrorDetail(); detail != nil {
		why := fmt.Sprintf("%.*s", maxReason, strings.TrimSpace(detail.GetMessage()))
		a.rejections.Add(1)
		a.log.Error("envoy refused a configuration", "node", s.node, "type", kind, "version", sent.version, "reason", why)
		if wanted {
			t.refused[kind] = why
		}
		return sent.version, 0
	}
	if wanted {
		delete(t.refused, kind)
	}
	if s.has(t.served, func(version string) string { return version }) {
		return "", t.serial
	}
	return "", 0
}
