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

// acks knows which versions are wanted, and which each connected Envoy has taken or refused. The zero value is ready.
type acks struct {
	log        *slog.Logger
	rejections atomic.Int64

	mu      sync.Mutex
	wanted  map[resourcev3.Type]string // only kinds that have resources: Envoy asks for no others
	streams map[int64]*stream
	changed chan struct{} // closed, and made anew, when anything above changes
}

// stream is one connected Envoy.
type stream struct {
	sent    map[resourcev3.Type]answer
	taken   map[resourcev3.Type]string // version
	refused map[resourcev3.Type]refusal
}

type answer struct{ nonce, version string }

type refusal struct{ version, reason string }

var kinds = []resourcev3.Type{
	resourcev3.ClusterType, resourcev3.ListenerType, resourcev3.RouteType, resourcev3.SecretType,
}

func (a *acks) want(snap *cachev3.Snapshot) {
	wanted := make(map[resourcev3.Type]string, len(kinds))
	for _, kind := range kinds {
		if len(snap.GetResources(kind)) > 0 {
			wanted[kind] = snap.GetVersion(kind)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted = wanted
	a.tell()
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
	done = a.wanted != nil && len(a.streams) > 0
	for _, s := range a.streams {
		for kind, version := range a.wanted {
			if r := s.refused[kind]; r.version == version {
				return false, nil, errors.New("envoy refused the configuration: " + r.reason)
			}
			done = done && s.taken[kind] == version
		}
	}
	return done, a.changed, nil
}

func (a *acks) connected() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.streams)
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

func (a *acks) open(_ context.Context, id int64, _ string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams == nil {
		a.streams = make(map[int64]*stream)
	}
	a.streams[id] = &stream{
		sent:    make(map[resourcev3.Type]answer),
		taken:   make(map[resourcev3.Type]string),
		refused: make(map[resourcev3.Type]refusal),
	}
	a.tell()
	return nil
}

func (a *acks) closed(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.streams, id)
	a.tell()
}

func (a *acks) response(_ context.Context, id int64, _ *discoveryv3.DiscoveryRequest, r *discoveryv3.DiscoveryResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.streams[id]; s != nil {
		s.sent[r.GetTypeUrl()] = answer{nonce: r.GetNonce(), version: r.GetVersionInfo()}
	}
}

// request is Envoy's word on the answer before: the version it now has, and why not the one it was sent.
func (a *acks) request(id int64, r *discoveryv3.DiscoveryRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.streams[id]
	if s == nil {
		return nil
	}
	kind := r.GetTypeUrl()
	s.taken[kind] = r.GetVersionInfo()
	if detail := r.GetErrorDetail(); detail != nil && r.GetResponseNonce() == s.sent[kind].nonce {
		s.refused[kind] = refusal{version: s.sent[kind].version, reason: detail.GetMessage()}
		a.rejections.Add(1)
		a.log.Error("envoy refused a configuration", "type", kind, "version", s.sent[kind].version, "reason", detail.GetMessage())
	}
	a.tell()
	return nil
}
