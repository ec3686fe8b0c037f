package xds

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protojson"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// plane is a server whose Envoys are simulated by the test.
type plane struct {
	*Server
	log     *bytes.Buffer
	streams int64
}

func newPlane(t *testing.T, o Options) *plane {
	t.Helper()
	p := &plane{log: &bytes.Buffer{}}
	o.Secret = func(node string) string { return "secret-of-" + node + "-0123456789" }
	p.Server = NewServer(slog.New(slog.NewTextHandler(p.log, nil)), o)
	if err := p.Set(t.Context(), shared("a")); err != nil {
		t.Fatal(err)
	}
	return p
}

func shared(ids ...policy.ProviderID) (st state.State) {
	for _, id := range ids {
		st.Providers = append(st.Providers, state.Provider{ID: id, Endpoints: []state.Endpoint{{Scheme: state.HTTP, Host: "127.0.0.1", Port: 1}}})
	}
	return st
}

// introduction returns an Envoy's node as in its bootstrap.
func introduction(t *testing.T, n state.Node) *corev3.Node {
	t.Helper()
	raw, err := envoy.Bootstrap(envoy.Options{Node: n, XDS: state.Peer{Address: "/x"}, AdminSocket: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), `"node":`)
	depth, end := 0, 0
	for i, r := range rest {
		if r == '{' {
			depth++
		}
		if r == '}' {
			if depth--; depth == 0 {
				end = i + 1
				break
			}
		}
	}
	c := &corev3.Node{}
	if err := protojson.Unmarshal([]byte(rest[:end]), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func local(id string) state.Node {
	return state.Node{ID: id, HTTP: "127.0.0.1:0", EgressSocket: "/run/" + id + "/egress.sock", ExtProc: "unix:///run/" + id + "/extproc.sock"}
}

// connect opens a stream and sends its first request.
func (p *plane) connect(t *testing.T, c *corev3.Node) (stream int64, err error) {
	t.Helper()
	p.streams++
	ctx := peer.NewContext(t.Context(), &peer.Peer{})
	if err := p.acks.open(ctx, p.streams, ""); err != nil {
		t.Fatal(err)
	}
	err = p.acks.request(p.streams, &discoveryv3.DiscoveryRequest{Node: c, TypeUrl: resourcev3.ClusterType})
	if err != nil {
		p.acks.closed(p.streams)
	}
	return p.streams, err
}

func (p *plane) listener(t *testing.T, id, name string) *listenerv3.Listener {
	t.Helper()
	snap, err := p.cache.GetSnapshot(id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	l, ok := snap.GetResources(resourcev3.ListenerType)[name].(*listenerv3.Listener)
	if !ok {
		t.Fatalf("%s has no listener %s", id, name)
	}
	return l
}

func TestEachNodeGetsWhatIsItsOwn(t *testing.T) {
	p := newPlane(t, Options{})
	for _, id := range []string{"gw-1", "gw-2"} {
		if _, err := p.connect(t, introduction(t, local(id))); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"gw-1", "gw-2"} {
		if at := p.listener(t, id, "egress").GetAddress().GetPipe().GetPath(); at != "/run/"+id+"/egress.sock" {
			t.Errorf("%s calls out at %s", id, at)
		}
		snap, _ := p.cache.GetSnapshot(id)
		if raw, err := protojson.Marshal(snap.GetResources(resourcev3.RouteType)["egress"]); err != nil || !strings.Contains(string(raw), "secret-of-"+id) {
			t.Errorf("%s's egress listener has another secret: %s", id, raw)
		}
	}
	if n := p.Connected(); n != 2 {
		t.Errorf("%d nodes are connected", n)
	}
}

func TestABadNodeIsRefusedByNameAndAlone(t *testing.T) {
	bad := func(change func(*corev3.Node)) *corev3.Node {
		c := introduction(t, local("bad"))
		change(c)
		return c
	}
	field := func(c *corev3.Node, name, value string) {
		raw := fmt.Sprintf(`{"id": "bad", "metadata": {"bardo": {%q: %q}}}`, name, value)
		more := &corev3.Node{}
		if err := protojson.Unmarshal([]byte(raw), more); err != nil {
			t.Fatal(err)
		}
		c.Metadata.Fields["bardo"].GetStructValue().Fields[name] = more.Metadata.Fields["bardo"].GetStructValue().Fields[name]
	}
	for name, tt := range map[string]struct {
		node *corev3.Node
		want string
	}{
		"no name":                     {bad(func(c *corev3.Node) { c.Id = "" }), "name"},
		"a name that is no word":      {bad(func(c *corev3.Node) { c.Id = "bad\nnode" }), "name"},
		"a long name":                 {bad(func(c *corev3.Node) { c.Id = strings.Repeat("x", 5000) }), "name"},
		"nothing about itself":        {bad(func(c *corev3.Node) { c.Metadata = nil }), "bardo bootstrap"},
		"no node at all":              {nil, ""},
		"a host to listen on":         {bad(func(c *corev3.Node) { field(c, "http", "example.test:80") }), "http listener"},
		"a relative socket":           {bad(func(c *corev3.Node) { field(c, "egress", "egress.sock") }), "egress listener"},
		"no way to its sidecar":       {bad(func(c *corev3.Node) { field(c, "extproc", "") }), "ext_proc server"},
		"https without a certificate": {bad(func(c *corev3.Node) { field(c, "https", "127.0.0.1:0") }), "https certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, Options{})
			good, err := p.connect(t, introduction(t, local("good")))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.connect(t, tt.node); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the stream ended with %v, want %q", err, tt.want)
			}
			if !strings.Contains(p.log.String(), "a node cannot be served") || p.log.Len() > 2000 {
				t.Errorf("logged %d bytes: %.500s", p.log.Len(), p.log)
			}
			if err := p.Set(t.Context(), shared("a", "b")); err != nil {
				t.Error(err)
			}
			if p.Connected() != 1 || p.acks.streams[good] == nil {
				t.Error("the good node went with it")
			}
		})
	}
}

// A node that the state does not fit any more keeps its configuration, and the others get the new one.
func TestAStateThatOneNodeCannotHaveReachesTheOthers(t *testing.T) {
	p := newPlane(t, Options{})
	for _, n := range []state.Node{local("without"), func() state.Node { n := local("with"); n.DemoSocket = "/run/demo.sock"; return n }()} {
		if _, err := p.connect(t, introduction(t, n)); err != nil {
			t.Fatal(err)
		}
	}
	st := shared("a")
	st.Providers = append(st.Providers, state.Provider{ID: "demo", Demo: true})
	if err := p.Set(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"with": true, "without": false} {
		snap, err := p.cache.GetSnapshot(id)
		if err != nil {
			t.Fatal(err)
		}
		if got := snap.GetResources(resourcev3.ClusterType)["demo"] != nil; got != want {
			t.Errorf("node %s has the new provider: %v", id, got)
		}
	}
	if !strings.Contains(p.log.String(), "node=without") {
		t.Errorf("nothing was said of it: %s", p.log)
	}
}

func TestTheNumberOfNodesIsBounded(t *testing.T) {
	p := newPlane(t, Options{MaxNodes: 2})
	var streams [3]int64
	for i := range 2 {
		var err error
		if streams[i], err = p.connect(t, introduction(t, local(fmt.Sprint("gw-", i)))); err != nil {
			t.Fatal(err)
		}
	}
	third := introduction(t, local("gw-2"))
	if _, err := p.connect(t, third); err == nil || !strings.Contains(err.Error(), "2 nodes") {
		t.Fatalf("a third node: %v", err)
	}
	p.acks.closed(streams[0])
	if _, err := p.connect(t, third); err != nil {
		t.Errorf("there is room, but %v", err)
	}
	if _, err := p.cache.GetSnapshot("gw-0"); err == nil {
		t.Error("the one that left is still there")
	}
}

func TestANodeThatIsGoneIsForgottenAfterAWhile(t *testing.T) {
	p := newPlane(t, Options{Forget: time.Hour})
	stream, err := p.connect(t, introduction(t, local("gw-1")))
	if err != nil {
		t.Fatal(err)
	}
	p.sweep(time.Now().Add(24 * time.Hour))
	if len(p.nodes) != 1 {
		t.Fatal("a connected node was forgotten")
	}
	p.acks.closed(stream)
	p.sweep(time.Now().Add(time.Minute))
	if len(p.nodes) != 1 {
		t.Fatal("it was forgotten too soon")
	}
	p.sweep(time.Now().Add(2 * time.Hour))
	if _, err := p.cache.GetSnapshot("gw-1"); err == nil || len(p.nodes) != 0 || len(p.acks.targets) != 0 {
		t.Error("it was never forgotten")
	}
}

func TestANodeCannotTurnIntoAnother(t *testing.T) {
	p := newPlane(t, Options{})
	stream, err := p.connect(t, introduction(t, local("gw-1")))
	if err != nil {
		t.Fatal(err)
	}
	err = p.acks.request(stream, &discoveryv3.DiscoveryRequest{Node: introduction(t, local("gw-2")), TypeUrl: resourcev3.RouteType})
	if err == nil {
		t.Error("it may ask for another one's routes")
	}
}

func TestProvidersAreThoseThatEnvoyHasTaken(t *testing.T) {
	var told []string
	p := newPlane(t, Options{Applied: func(node string) { told = append(told, node) }})
	c := introduction(t, local("gw-1"))
	stream, err := p.connect(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Providers("gw-1"); len(got) != 0 {
		t.Errorf("before it has answered it has %v", got)
	}
	take := func() {
		snap, err := p.cache.GetSnapshot("gw-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			sent := &discoveryv3.DiscoveryResponse{TypeUrl: kind, VersionInfo: snap.GetVersion(kind), Nonce: "1"}
			p.acks.response(t.Context(), stream, nil, sent)
			r := &discoveryv3.DiscoveryRequest{Node: c, TypeUrl: kind, VersionInfo: sent.GetVersionInfo(), ResponseNonce: sent.GetNonce()}
			if err := p.acks.request(stream, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	take()
	if err := p.Set(context.WithoutCancel(t.Context()), shared("a", "b")); err != nil {
		t.Fatal(err)
	}
	if got := p.Providers("gw-1"); len(got) != 1 {
		t.Errorf("before it has taken the second it has %v", got)
	}
	take()
	take()
	if got := p.Providers("gw-1"); len(got) != 2 || len(told) != 2 {
		t.Errorf("it has %v, and that was told %d times", got, len(told))
	}
}

// TestTheBackOffIsBounded: it grows with each refusal, up to a maximum, and does not wrap.
func TestTheBackOffIsBounded(t *testing.T) {
	for _, first := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
		before := time.Duration(0)
		for failures := 1; failures <= 200; failures++ {
			wait := backOff(first, failures)
			if wait < first || wait < before || wait > max(maxRetry, first) {
				t.Fatalf("after %d refusals %s, and %s before, of %s at first", failures, wait, before, first)
			}
			before = wait
		}
		if before != max(maxRetry, first) {
			t.Errorf("it ends at %s", before)
		}
	}
}
