package xds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
)

// acks knows which versions are wanted, and which each connected Envoy has taken or refused. Its functions must be set.
type acks struct {
	log        *slog.Logger
	rejections atomic.Int64
	pushes     atomic.Int64
	enter      func(context.Context, *corev3.Node) (id string, err error) // on a stream's first request
	leave      func(id string)
	took       func(id, clusters string) // a node's Envoy has this version of the clusters

	mu      sync.Mutex
	wanted  map[string]versions // by node; only kinds that have resources: Envoy asks for no others
	streams map[int64]*stream
	changed chan struct{} // closed, and made anew, when anything above changes
}

type versions = map[resourcev3.Type]string

// stream is one connected Envoy. Its first request says which.
type stream struct {
	node    string
	enter   func(*corev3.Node) (id string, err error)
	sent    map[resourcev3.Type]answer
	taken   map[resourcev3.Type]string // version
	refused map[resourcev3.Type]refusal
}

type answer struct{ nonce, version string }

type refusal struct{ version, reason string }

var kinds = []resourcev3.Type{
	resourcev3.ClusterType, resourcev3.ListenerType, resourcev3.RouteType, resourcev3.SecretType,
}

func (a *acks) want(node string, snap *cachev3.Snapshot) {
	wanted := make(versions, len(kinds))
	for _, kind := range kinds {
		if len(snap.GetResources(kind)) > 0 {
			wanted[kind] = snap.GetVersion(kind)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wanted == nil {
		a.wanted = map[string]versions{}
	}
	a.wanted[node] = wanted
	a.tell()
}

func (a *acks) forget(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.wanted, node)
}

func (a *acks) wait(ctx context.Context) error {
	for {
		done, changed, err := a.state()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("envoy has not taken the configuration: %w", ctx.Err())
		case <-changed:
		}
	}
}

// state says whether all Envoys have what is wanted, and what to wait for if not.
func (a *acks) state() (done bool, changed <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	known, done := 0, true
	for _, s := range a.streams {
		if s.node == "" {
			continue
		}
		known++
		wanted := a.wanted[s.node]
		done = done && wanted != nil
		for kind, version := range wanted {
			if r := s.refused[kind]; r.version == version {
				return false, nil, fmt.Errorf("envoy %s refused the configuration: %s", s.node, r.reason)
			}
			done = done && s.taken[kind] == version
		}
	}
	return done && known > 0, a.changed, nil
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

// tell wakes all who wait; the caller holds mu.
func (a *acks) tell() {
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
		enter:   func(n *corev3.Node) (string, error) { return a.enter(ctx, n) },
		sent:    make(map[resourcev3.Type]answer),
		taken:   make(map[resourcev3.Type]string),
		refused: make(map[resourcev3.Type]refusal),
	}
	a.tell()
	return nil
}

func (a *acks) closed(id int64) {
	a.mu.Lock()
	node := ""
	if s := a.streams[id]; s != nil {
		node = s.node
	}
	delete(a.streams, id)
	a.tell()
	a.mu.Unlock()
	if node != "" {
		a.leave(node)
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

// request is Envoy's word on the answer before: the version it now has, and why not the one it was sent. The first one on a stream
// says who speaks, and the others say the same.
func (a *acks) request(id int64, r *discoveryv3.DiscoveryRequest) error {
	node, err := a.whose(id, r.GetNode())
	if err != nil {
		return err
	}
	a.heard(id, r)
	if r.GetTypeUrl() == resourcev3.ClusterType && r.GetVersionInfo() != "" {
		a.took(node, r.GetVersionInfo())
	}
	return nil
}

// whose is the node of a stream.
func (a *acks) whose(id int64, n *corev3.Node) (string, error) {
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

func (a *acks) heard(id int64, r *discoveryv3.DiscoveryRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.streams[id]
	if s == nil {
		return
	}
	kind := r.GetTypeUrl()
	s.taken[kind] = r.GetVersionInfo()
	if detail := r.GetErrorDetail(); detail != nil && r.GetResponseNonce() == s.sent[kind].nonce {
		s.refused[kind] = refusal{version: s.sent[kind].version, reason: detail.GetMessage()}
		a.rejections.Add(1)
		a.log.Error("envoy refused a configuration", "node", s.node, "type", kind, "version", s.sent[kind].version, "reason", detail.GetMessage())
	}
	a.tell()
}
