package xds_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/envoytest"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/state"
)

// player simulates an Envoy over a real connection. It accepts everything but clusters automatically.
type player struct {
	t        *testing.T
	stream   discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	node     *corev3.Node
	clusters chan *discoveryv3.DiscoveryResponse
	first    *discoveryv3.DiscoveryResponse // of the clusters

	mu  sync.Mutex        // guards sending, and what follows
	has map[string]string // version by kind
}

// serve starts a control plane with a state, and returns it with its address.
func serve(t *testing.T, o xds.Options, st state.State) (s *xds.Server, at string) {
	t.Helper()
	at = filepath.Join(proctest.Dir(t), "xds.sock")
	o.Secret = func(string) string { return secret }
	s = xds.NewServer(slog.New(slog.DiscardHandler), o)
	l, err := xds.Listen(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	own(t, func(ctx context.Context) error { return s.Serve(ctx, l, nil) })
	if err := s.Set(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	return s, at
}

// connect opens a stream and requests everything.
func connect(t *testing.T, at, id string) *player {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+at, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(within(t, polltest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	p := &player{t: t, stream: stream, node: nodeOf(t, id), has: map[string]string{}, clusters: make(chan *discoveryv3.DiscoveryResponse, 16)}
	for _, kind := range []string{resourcev3.ClusterType, resourcev3.ListenerType, resourcev3.RouteType} {
		if err := p.send(p.answer(&discoveryv3.DiscoveryResponse{TypeUrl: kind})); err != nil {
			t.Fatal(err)
		}
	}
	go p.read()
	return p
}

// play connects an Envoy and takes the first clusters.
func play(t *testing.T, s *xds.Server, at, id string) *player {
	t.Helper()
	p := connect(t, at, id)
	p.first = p.next()
	p.take(p.first)
	polltest.Until(t, id+" to be known as whole", func() bool { return len(s.Providers(id)) > 0 })
	return p
}

// read accepts answers until the stream ends, and forwards those with clusters.
func (p *player) read() {
	defer close(p.clusters)
	for {
		r, err := p.stream.Recv()
		if err != nil {
			return
		}
		if r.GetTypeUrl() == resourcev3.ClusterType {
			p.clusters <- r
		} else if p.accept(r) != nil {
			return
		}
	}
}

// nodeOf returns the node message of an Envoy.
func nodeOf(t *testing.T, id string) *corev3.Node {
	t.Helper()
	raw, err := envoy.Bootstrap(envoy.Options{
		Node: state.Node{ID: id, HTTP: "127.0.0.1:0", EgressSocket: "/run/" + id + ".sock", ExtProc: "unix:///run/x.sock"},
		XDS:  state.Peer{Address: "/x"}, AdminSocket: "/a",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), `"node":`)
	depth := 0
	end := strings.IndexFunc(rest, func(r rune) bool {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
			return depth == 0
		}
		return false
	})
	n := &corev3.Node{}
	if err := protojson.Unmarshal([]byte(rest[:end+1]), n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (p *player) send(r *discoveryv3.DiscoveryRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.VersionInfo = p.has[r.GetTypeUrl()]
	return p.stream.Send(r)
}

// answer is the request that follows an answer.
func (p *player) answer(r *discoveryv3.DiscoveryResponse) *discoveryv3.DiscoveryRequest {
	out := &discoveryv3.DiscoveryRequest{Node: p.node, TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	if r.GetTypeUrl() == resourcev3.RouteType {
		out.ResourceNames = []string{"client", "egress"}
	}
	return out
}

func (p *player) accept(r *discoveryv3.DiscoveryResponse) error {
	p.mu.Lock()
	p.has[r.GetTypeUrl()] = r.GetVersionInfo()
	p.mu.Unlock()
	return p.send(p.answer(r))
}

func (p *player) take(r *discoveryv3.DiscoveryResponse) {
	p.t.Helper()
	if err := p.accept(r); err != nil {
		p.t.Fatal(err)
	}
}

func (p *player) refuse(r *discoveryv3.DiscoveryResponse, why string) {
	p.t.Helper()
	out := p.answer(r)
	out.ErrorDetail = status.New(codes.Internal, why).Proto()
	if err := p.send(out); err != nil {
		p.t.Fatal(err)
	}
}

// next is the next answer with clusters.
func (p *player) next() *discoveryv3.DiscoveryResponse {
	p.t.Helper()
	r, ok := <-p.clusters
	if !ok {
		p.t.Fatal("the stream has ended")
	}
	return r
}

// leave ends the stream.
func (p *player) leave() {
	p.t.Helper()
	p.mu.Lock()
	err := p.stream.CloseSend()
	p.mu.Unlock()
	if err != nil {
		p.t.Fatal(err)
	}
}

// clusters are the names of the clusters in an answer, each provider's once.
func clusters(t *testing.T, r *discoveryv3.DiscoveryResponse) (names []string) {
	t.Helper()
	for _, a := range r.GetResources() {
		c := &clusterv3.Cluster{}
		if err := a.UnmarshalTo(c); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.GetName(), "~") && c.GetName() != state.ClusterExtProc {
			names = append(names, c.GetName())
		}
	}
	slices.Sort(names)
	return names
}

func having(ids ...policy.ProviderID) (st state.State) {
	for _, id := range ids {
		st.Providers = append(st.Providers, state.Provider{ID: id, Endpoints: []state.Endpoint{{Scheme: state.HTTP, Host: "127.0.0.1", Port: 1}}})
	}
	return st
}

// A refusal is answered with the last good configuration, once, and then with nothing until there is a new one.
func TestARefusedConfigurationIsNotSentAgain(t *testing.T) {
	s, at := serve(t, xds.Options{}, having("a"))
	p := play(t, s, at, "gw-1")
	if err := s.Applied(within(t, polltest.Patience)); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(t.Context(), having("a", "bad")); err != nil {
		t.Fatal(err)
	}
	bad := p.next()
	p.refuse(bad, "no such thing")
	if err := s.Applied(within(t, polltest.Patience)); err == nil || !strings.Contains(err.Error(), "no such thing") || !strings.Contains(err.Error(), "gw-1") {
		t.Errorf("Applied says %v", err)
	}
	back := p.next()
	if got := clusters(t, back); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("after its refusal it is sent %q", got)
	}
	p.take(back)
	if err := s.Set(t.Context(), having("a", "good")); err != nil {
		t.Fatal(err)
	}
	after := p.next()
	if got := clusters(t, after); !slices.Equal(got, []string{"a", "good"}) {
		t.Fatalf("the next answer is %q: something was sent in between", got)
	}
	if n := s.Rejections(); n != 1 {
		t.Errorf("%d rejections", n)
	}
}

// A refused first configuration has no predecessor: it is not sent in a loop either.
func TestARefusedFirstConfigurationIsNotSentAgain(t *testing.T) {
	s, at := serve(t, xds.Options{}, having("bad"))
	p := connect(t, at, "gw-1")
	p.refuse(p.next(), "no such thing")
	polltest.Until(t, "the refusal", func() bool { return s.Rejections() > 0 })
	if all := s.Refusals(); len(all) != 1 || all[0].Reason != "no such thing" {
		t.Errorf("refusals %+v", all)
	}
	if err := s.Set(t.Context(), having("good")); err != nil {
		t.Fatal(err)
	}
	if got := clusters(t, p.next()); !slices.Equal(got, []string{"good"}) {
		t.Fatalf("the next answer is %q", got)
	}
	if n := s.Rejections(); n != 1 {
		t.Errorf("%d rejections", n)
	}
}

// TestWhatIsKeptOfARefusalIsBounded: an Envoy's reason may be long.
func TestWhatIsKeptOfARefusalIsBounded(t *testing.T) {
	s, at := serve(t, xds.Options{}, having("bad"))
	p := connect(t, at, "gw-1")
	p.refuse(p.next(), strings.Repeat("x", 100_000))
	polltest.Until(t, "the refusal", func() bool { return len(s.Refusals()) > 0 })
	if why := s.Refusals()[0].Reason; len(why) != 1000 {
		t.Errorf("%d bytes are kept", len(why))
	}
}

// A late refusal concerns what was sent before it, and not the last answer.
func TestARefusalIsMatchedByNonce(t *testing.T) {
	s, at := serve(t, xds.Options{}, having("a"))
	p := play(t, s, at, "gw-1")
	for _, id := range []policy.ProviderID{"b", "c"} {
		if err := s.Set(t.Context(), having("a", id)); err != nil {
			t.Fatal(err)
		}
		if id == "b" {
			p.take(p.next())
		}
	}
	last := p.next()
	stale := &discoveryv3.DiscoveryResponse{TypeUrl: last.GetTypeUrl(), Nonce: "0"}
	p.refuse(stale, "late")
	p.take(last)
	if err := s.Applied(within(t, polltest.Patience)); err != nil {
		t.Errorf("Applied says %v", err)
	}
	if n := s.Rejections(); n != 0 {
		t.Errorf("a refusal of something else counts: %d", n)
	}
}

// A refusal by one node does not affect the others, and the node keeps its configuration.
func TestARefusalByOneNodeLeavesTheOthersTheirs(t *testing.T) {
	s, at := serve(t, xds.Options{}, having("a"))
	one, two := play(t, s, at, "gw-1"), play(t, s, at, "gw-2")
	if err := s.Applied(within(t, polltest.Patience)); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(t.Context(), having("a", "b")); err != nil {
		t.Fatal(err)
	}
	one.refuse(one.next(), "not here")
	two.take(two.next())
	err := s.Applied(within(t, polltest.Patience))
	if err == nil || !strings.Contains(err.Error(), "gw-1") || strings.Contains(err.Error(), "gw-2") {
		t.Errorf("Applied says %v", err)
	}
	one.take(one.next())
	polltest.Until(t, "what each has", func() bool {
		return len(s.Providers("gw-1")) == 1 && len(s.Providers("gw-2")) == 2
	})
	refusals := s.Refusals()
	if len(refusals) != 1 || refusals[0].Node != "gw-1" || !strings.Contains(refusals[0].Reason, "not here") {
		t.Errorf("the refusals are %+v", refusals)
	}
	// The next state reaches both.
	if err := s.Set(t.Context(), having("a", "c")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*player{one, two} {
		r := p.next()
		if got := clusters(t, r); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("%s was sent %q", p.node.GetId(), got)
		}
		p.take(r)
	}
	if err := s.Applied(within(t, polltest.Patience)); err != nil {
		t.Error(err)
	}
	if left := s.Refusals(); len(left) != 0 {
		t.Errorf("the refusals are still %+v", left)
	}
}

// An Envoy that restarts after refusing the newest configuration gets the last good one.
func TestANodeThatComesBackGetsTheLastGoodConfiguration(t *testing.T) {
	s, at := serve(t, xds.Options{}, having("a"))
	p := play(t, s, at, "gw-1")
	if err := s.Applied(within(t, polltest.Patience)); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(t.Context(), having("a", "bad")); err != nil {
		t.Fatal(err)
	}
	p.refuse(p.next(), "no")
	p.take(p.next())
	p.leave()
	polltest.Until(t, "its end", func() bool { return s.Connected() == 0 })
	again := play(t, s, at, "gw-1")
	if got := clusters(t, again.first); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it was given %q", got)
	}
	if n := s.Rejections(); n != 1 {
		t.Errorf("%d rejections", n)
	}
}

// A refused configuration is retried with growing delays, and accepted once it is valid.
func TestWhatWasRefusedIsTriedAgainWithBackOff(t *testing.T) {
	const first = 50 * time.Millisecond
	s, at := serve(t, xds.Options{Retry: first}, having("a"))
	p := play(t, s, at, "gw-1")
	if err := s.Set(t.Context(), having("a", "b")); err != nil {
		t.Fatal(err)
	}
	offered := p.next()
	for i := range 3 {
		began := time.Now()
		p.refuse(offered, "not yet")
		back := p.next()
		if got := clusters(t, back); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("after a refusal it is sent %q", got)
		}
		p.take(back)
		offered = p.next()
		if got := clusters(t, offered); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("what is tried again is %q", got)
		}
		if waited := time.Since(began); waited < first<<i {
			t.Errorf("try %d came after %s, before %s were over", i+2, waited, first<<i)
		}
	}
	p.take(offered)
	polltest.Until(t, "the end of the refusal", func() bool { return len(s.Refusals()) == 0 })
	if err := s.Applied(within(t, polltest.Patience)); err != nil {
		t.Errorf("Applied says %v", err)
	}
}

// secure is a provider whose cluster names a file of roots.
func secure(id policy.ProviderID) state.Provider {
	return state.Provider{ID: id, Endpoints: []state.Endpoint{{Scheme: state.HTTPS, Host: "127.0.0.1", Port: 1}}}
}

// A real Envoy refuses in the middle of an update that it has partly applied: its earlier configuration is restored, and nothing is sent in a loop.
func TestAnEnvoyThatRefusesKeepsWhatItHad(t *testing.T) {
	l := newLab(t, nil, says("stays"), says("leaves"))
	ctx := within(t, polltest.Patience)
	st := l.state
	st.CAPath = "/no/such/file.pem"
	st.Providers = []state.Provider{l.state.Providers[0], secure("bad")}
	st.Order = []policy.ProviderID{"stays"}
	if err := l.xds.Set(ctx, st); err != nil {
		t.Fatal(err)
	}
	if err := l.xds.Applied(ctx); err == nil || !strings.Contains(err.Error(), "/no/such/file.pem") {
		t.Fatalf("Applied says %v", err)
	}
	polltest.Until(t, "the provider that the refused update left out", func() bool {
		return l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "leaves").status == 200
	})
	polltest.Until(t, "the end of the answers", func() bool { // of what was before, there may be some left to send
		pushes := l.xds.Pushes()
		for range 100 {
			if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "stays"); a.status != 200 {
				t.Fatalf("answer is %d %q", a.status, a.body)
			}
		}
		return l.xds.Pushes() == pushes
	})
	if n := l.xds.Rejections(); n != 1 {
		t.Errorf("%d refusals", n)
	}
	l.set(func(*state.State) {})
}

// An invalid configuration may become valid without a new one.
func TestWhatBecomesGoodIsTakenWithoutARestart(t *testing.T) {
	l := newLabWith(t, xds.Options{Retry: 20 * time.Millisecond}, nil, says("good"))
	roots := filepath.Join(t.TempDir(), "roots.pem")
	ctx := within(t, polltest.Patience)
	st := l.state
	st.CAPath = roots
	st.Providers = append(slices.Clone(st.Providers), secure("secure"))
	if err := l.xds.Set(ctx, st); err != nil {
		t.Fatal(err)
	}
	if err := l.xds.Applied(ctx); err == nil {
		t.Fatal("it was not refused")
	}
	cert, _ := certificate(t, "x.test")
	if err := os.WriteFile(roots, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the configuration", func() bool {
		return l.xds.Applied(ctx) == nil && slices.Contains(l.xds.Providers(state.NodeID), policy.ProviderID("secure"))
	})
}

// Of two real Envoys, one refuses a certificate that the other does not use.
func TestOneEnvoyRefusesAndTheOtherServes(t *testing.T) {
	goodCert, goodKey := certificate(t, "bardo.test")
	st := having("a")
	st.CertPEM, st.KeyPEM = goodCert, goodKey
	s, at := serve(t, xds.Options{}, st)
	start := func(n state.Node) *envoy.Process {
		dir := proctest.Dir(t)
		n.EgressSocket, n.ExtProc, n.HTTP = filepath.Join(dir, "egress.sock"), "127.0.0.1:1", "127.0.0.1:0"
		p, err := envoy.NewProcess(envoy.Command{
			Path: envoytest.Binary(t), Dir: dir, Concurrency: 1, Log: slog.New(slog.DiscardHandler),
			Bootstrap: envoy.Options{Node: n, XDS: state.Peer{Address: at}},
		})
		if err != nil {
			t.Fatal(err)
		}
		own(t, p.Run)
		return p
	}
	ctx := within(t, polltest.Patience)
	plain, tls := start(state.Node{ID: "plain"}), start(state.Node{ID: "tls", HTTPS: "127.0.0.1:0"})
	if err := errors.Join(plain.Ready(ctx), tls.Ready(ctx), s.Applied(ctx)); err != nil {
		t.Fatal(err)
	}
	st = having("a", "b")
	st.CertPEM, st.KeyPEM = weakCertificate(t)
	if err := s.Set(ctx, st); err != nil {
		t.Fatal(err)
	}
	err := s.Applied(ctx)
	if err == nil || !strings.Contains(err.Error(), "envoy tls refused") || strings.Contains(err.Error(), "plain") {
		t.Errorf("Applied says %v", err)
	}
	polltest.Until(t, "what each has", func() bool {
		return len(s.Providers("plain")) == 2 && len(s.Providers("tls")) == 1
	})
	at1, err := tls.Addresses(ctx)
	if err != nil || at1["https"] == "" {
		t.Errorf("the one that refused listens on %v, %v", slices.Collect(maps.Values(at1)), err)
	}
	if n := s.Rejections(); n != 1 {
		t.Errorf("%d refusals", n)
	}
}

// weakCertificate returns one that Go accepts and Envoy does not: its RSA key has 1,024 bits.
func weakCertificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return selfSigned(t, "bardo.test", k)
}
