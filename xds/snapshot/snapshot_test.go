package snapshot

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	groupv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/router/cluster_specifiers/priority_group/v3"
	proxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/http_11_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sound() state.State {
	return state.State{
		HTTP:         "127.0.0.1:8080",
		EgressSocket: "/run/bardo/egress.sock",
		EgressSecret: "0123456789abcdef",
		ExtProc:      state.Peer{Address: "/run/bardo/extproc.sock"},
		Providers: []state.Provider{
			{ID: "openai", Endpoints: []state.Endpoint{{Scheme: state.HTTPS, Host: "api.openai.example", Port: 443}}},
			{ID: "vllm", Endpoints: []state.Endpoint{
				{Scheme: state.HTTP, Host: "10.0.0.1", Port: 8000}, {Scheme: state.HTTP, Host: "10.0.0.2", Port: 8000},
			}},
			{ID: "demo", Endpoints: []state.Endpoint{{Scheme: state.Unix, Pipe: "/run/bardo/demo.sock"}}},
		},
		Order: []policy.ProviderID{"vllm", "openai"},
	}
}

func build(t *testing.T, s state.State) *cachev3.Snapshot {
	t.Helper()
	snap, err := Build(s)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// resource finds one by kind and name.
func resource[M proto.Message](t *testing.T, snap *cachev3.Snapshot, kind resourcev3.Type, name string) M {
	t.Helper()
	m, ok := snap.GetResources(kind)[name].(M)
	if !ok {
		t.Fatalf("there is no %s %q", kind, name)
	}
	return m
}

func unpack[M proto.Message](t *testing.T, a *anypb.Any, into M) M {
	t.Helper()
	if err := a.UnmarshalTo(into); err != nil {
		t.Fatal(err)
	}
	return into
}

func manager(t *testing.T, snap *cachev3.Snapshot, listener string) *hcmv3.HttpConnectionManager {
	t.Helper()
	l := resource[*listenerv3.Listener](t, snap, resourcev3.ListenerType, listener)
	return unpack(t, l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &hcmv3.HttpConnectionManager{})
}

// TestB13AProviderBehindAProxyIsNotResolved: the proxy is asked for its name.
func TestB13AProviderBehindAProxyIsNotResolved(t *testing.T) {
	s := sound()
	s.Providers[0].Proxy = netip.MustParseAddrPort("10.0.0.9:3128")
	s.Providers[0].Endpoints = append(s.Providers[0].Endpoints, state.Endpoint{Scheme: state.HTTPS, Host: "api.openai.example", Port: 8443})
	s.Providers[1].Proxy = s.Providers[0].Proxy // it is not reached by TLS
	s.Providers = append(s.Providers, state.Provider{ID: "v6", Proxy: s.Providers[0].Proxy, Endpoints: []state.Endpoint{{Scheme: state.HTTPS, Host: "2001:db8::1", Port: 443}}})
	snap := build(t, s)
	for name, want := range map[string]struct {
		host  string
		ports []uint32
	}{"openai": {"api.openai.example", []uint32{443, 8443}}, "openai~retry": {"api.openai.example", []uint32{443, 8443}}, "v6": {"[2001:db8::1]", []uint32{443}}} {
		c := resource[*clusterv3.Cluster](t, snap, resourcev3.ClusterType, name)
		var proxy proxyv3.Http11ProxyUpstreamTransport
		unpack(t, c.GetTransportSocket().GetTypedConfig(), &proxy)
		at := proxy.GetDefaultProxyAddress().GetSocketAddress()
		if c.GetType() != clusterv3.Cluster_STATIC || at.GetAddress() != "10.0.0.9" || at.GetPortValue() != 3128 {
			t.Errorf("%s: %v", name, c)
		}
		var over tlsv3.UpstreamTlsContext
		if unpack(t, proxy.GetTransportSocket().GetTypedConfig(), &over); over.GetSni() != strings.Trim(want.host, "[]") {
			t.Errorf("%s: the server name is %q", name, over.GetSni())
		}
		var ports []uint32
		for _, e := range c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints() {
			if ports = append(ports, e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue()); e.GetEndpoint().GetHostname() != want.host {
				t.Errorf("%s: the proxy is asked for %q", name, e.GetEndpoint().GetHostname())
			}
		}
		if !slices.Equal(ports, want.ports) {
			t.Errorf("%s: ports %v", name, ports)
		}
	}
	if c := resource[*clusterv3.Cluster](t, snap, resourcev3.ClusterType, "vllm"); c.GetTransportSocket() != nil || c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetHostname() != "" {
		t.Errorf("a provider without TLS: %v", c)
	}
}

func TestWhatTheConfigurationSays(t *testing.T) {
	snap := build(t, sound())
	files := map[string]proto.Message{
		"cluster_openai_retry": resource[*clusterv3.Cluster](t, snap, resourcev3.ClusterType, "openai~retry"),
		"cluster_vllm":         resource[*clusterv3.Cluster](t, snap, resourcev3.ClusterType, "vllm"),
		"listener_http":        resource[*listenerv3.Listener](t, snap, resourcev3.ListenerType, ListenerHTTP),
		"listener_egress":      resource[*listenerv3.Listener](t, snap, resourcev3.ListenerType, ListenerEgress),
		"routes_client":        resource[*routev3.RouteConfiguration](t, snap, resourcev3.RouteType, routesClient),
		"routes_egress":        resource[*routev3.RouteConfiguration](t, snap, resourcev3.RouteType, routesEgress),
	}
	for name, m := range files {
		t.Run(name, func(t *testing.T) {
			got, err := envoy.JSON(m)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs; run with -update and read the difference", path)
			}
		})
	}
}

func TestTheSameStateGivesTheSameVersions(t *testing.T) {
	first := build(t, sound())
	for range 20 {
		again := build(t, sound())
		for _, kind := range []resourcev3.Type{resourcev3.ClusterType, resourcev3.ListenerType, resourcev3.RouteType} {
			if first.GetVersion(kind) != again.GetVersion(kind) {
				t.Fatalf("%s has two versions", kind)
			}
		}
	}
}

func TestAnotherOrderChangesRoutesAlone(t *testing.T) {
	s := sound()
	s.Order = []policy.ProviderID{"openai", "vllm"}
	a, b := build(t, sound()), build(t, s)
	if a.GetVersion(resourcev3.RouteType) == b.GetVersion(resourcev3.RouteType) {
		t.Error("routes did not change")
	}
	for _, kind := range []resourcev3.Type{resourcev3.ClusterType, resourcev3.ListenerType} {
		if a.GetVersion(kind) != b.GetVersion(kind) {
			t.Errorf("%s changed: listeners drain and clusters lose connections for an order", kind)
		}
	}
}

func TestTheSidecarSeesBothDirectionsAndFailsClosed(t *testing.T) {
	m := manager(t, build(t, sound()), ListenerHTTP)
	filters := m.GetHttpFilters()
	if len(filters) != 2 {
		t.Fatalf("%d filters; a second ext_proc in one chain truncates answers", len(filters))
	}
	f := unpack(t, filters[0].GetTypedConfig(), &extprocv3.ExternalProcessor{})
	mode := f.GetProcessingMode()
	if f.GetFailureModeAllow() || f.GetStatusOnError().GetCode() != 503 {
		t.Error("requests pass when the sidecar is away")
	}
	if mode.GetRequestTrailerMode() != extprocv3.ProcessingMode_SEND || mode.GetResponseTrailerMode() != extprocv3.ProcessingMode_SEND {
		t.Error("full duplex needs trailers sent")
	}
}

func TestEveryAttemptIsWatchedAndEndsInTheCodec(t *testing.T) {
	snap := build(t, sound())
	for name, want := range map[string][]string{
		"vllm":       {"lua", "header_mutation", "upstream_codec"},
		"vllm~retry": {"lua", "ext_proc", "header_mutation", "upstream_codec"},
	} {
		c := resource[*clusterv3.Cluster](t, snap, resourcev3.ClusterType, name)
		o := unpack(t, c.GetTypedExtensionProtocolOptions()[envoy.HTTPOptions], &httpv3.HttpProtocolOptions{})
		var got []string
		for _, f := range o.GetHttpFilters() {
			got = append(got, strings.TrimPrefix(f.GetName(), "envoy.filters.http."))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has filters %v, want %v", name, got, want)
		}
	}
}

func groups(t *testing.T, snap *cachev3.Snapshot) (names, clusters []string) {
	t.Helper()
	rc := resource[*routev3.RouteConfiguration](t, snap, resourcev3.RouteType, routesClient)
	plugin := rc.GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetInlineClusterSpecifierPlugin()
	g := unpack(t, plugin.GetExtension().GetTypedConfig(), &groupv3.PriorityGroupClusterSpecifier{})
	for _, p := range g.GetPriorityGroups() {
		names = append(names, p.GetName())
		clusters = append(clusters, p.GetClusters()[0].GetClusterName())
	}
	return names, clusters
}

func TestTheDefaultOrderIsTheStatesAndEndsWithTheRest(t *testing.T) {
	s := sound()
	for _, tt := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"in order, then what the order does not name", func() {}, []string{"vllm~retry", "openai~retry", "demo~retry", "vllm~retry"}},
		{"without a disabled one", func() { s.Providers[1].Disabled = true }, []string{"openai~retry", "demo~retry", "openai~retry"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.change()
			names, clusters := groups(t, build(t, s))
			if !slices.Equal(clusters[:len(tt.want)], tt.want) {
				t.Errorf("order is %v, want %v first", clusters, tt.want)
			}
			for _, own := range []string{"vllm", "vllm~retry", "openai", "demo~retry"} {
				if i := slices.Index(names, own); i < 0 || clusters[i] != own {
					t.Errorf("a request's own order cannot name %s", own)
				}
			}
		})
	}
}

func TestEveryPartMayBeMissing(t *testing.T) {
	for name, change := range map[string]func(*state.State){
		"no providers":        func(s *state.State) { s.Providers, s.Order = nil, nil },
		"all disabled":        func(s *state.State) { s.Providers = s.Providers[:1]; s.Providers[0].Disabled = true; s.Order = nil },
		"no client listeners": func(s *state.State) { s.HTTP = "" },
		"no egress":           func(s *state.State) { s.EgressSocket = "" },
		"a sidecar over TCP":  func(s *state.State) { s.ExtProc.Address = "sidecar.example:9000" },
		"a sidecar known by files": func(s *state.State) {
			s.ExtProc.TLS = &state.TLS{SecretDir: "/var/lib/bardo", ServerName: "gw-1"}
		},
		"a sidecar behind TLS": func(s *state.State) { s.ExtProc.TLS = &state.TLS{CAPEM: []byte("ca"), ServerName: "sidecar"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := sound()
			change(&s)
			build(t, s)
		})
	}
}

func TestAnAccessLogHoldsNoContent(t *testing.T) {
	s := sound()
	s.AccessLog = true
	raw, err := protojson.Marshal(manager(t, build(t, s), ListenerHTTP).GetAccessLog()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"authorization", "x-api-key", "BODY", "%PATH(WQ)", "QUERY"} {
		if strings.Contains(strings.ToLower(string(raw)), strings.ToLower(secret)) {
			t.Errorf("the log has %s", secret)
		}
	}
	if manager(t, build(t, sound()), ListenerHTTP).GetAccessLog() != nil {
		t.Error("there is a log that nobody asked for")
	}
}

func TestTheBootstrapFitsTheSnapshot(t *testing.T) {
	raw, err := envoy.Bootstrap(envoy.Options{XDS: state.Peer{Address: "/run/xds.sock"}, AdminSocket: "/run/admin.sock"})
	if err != nil {
		t.Fatal(err)
	}
	var b bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	if b.GetNode().GetId() != state.NodeID {
		t.Errorf("node %q", b.GetNode().GetId())
	}
}

func BenchmarkBuild(b *testing.B) {
	s := sound()
	for b.Loop() {
		if _, err := Build(s); err != nil {
			b.Fatal(err)
		}
	}
}
