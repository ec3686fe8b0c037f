package snapshot

import (
	"net/netip"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Envoy's defaults and their cost. The numbers are those of the measured pitfalls; the others are shown with a real Envoy, in package xds and end to
// end.

func clustersOf(t *testing.T, snap *cachev3.Snapshot) map[string]*clusterv3.Cluster {
	t.Helper()
	out := map[string]*clusterv3.Cluster{}
	for name := range snap.GetResources(resourcev3.ClusterType) {
		out[name] = resource[*clusterv3.Cluster](t, snap, resourcev3.ClusterType, name)
	}
	return out
}

func TestPitfall03TheRequestsStateOutlivesItsBody(t *testing.T) {
	f := unpack(t, manager(t, build(t, sound()), ListenerHTTP).GetHttpFilters()[0].GetTypedConfig(), &extprocv3.ExternalProcessor{})
	if f.GetProcessingMode().GetResponseHeaderMode() != extprocv3.ProcessingMode_SEND {
		t.Error("the stream, and with it the request's state, would end before the attempts' streams begin")
	}
}

func TestPitfall05RetriesAreNotCountedOut(t *testing.T) {
	for name, c := range clustersOf(t, build(t, sound())) {
		for _, th := range c.GetCircuitBreakers().GetThresholds() {
			if n := min(th.GetMaxRetries().GetValue(), th.GetMaxRequests().GetValue(), th.GetMaxPendingRequests().GetValue(), th.GetMaxConnections().GetValue()); n < 10_000 {
				t.Errorf("%s has a limit of %d at once; Envoy's own 3 retries lose failover under load", name, n)
			}
		}
		if len(c.GetCircuitBreakers().GetThresholds()) == 0 {
			t.Errorf("%s has Envoy's own limits", name)
		}
	}
}

func TestPitfall06NoClusterIsLeftWithoutAHost(t *testing.T) {
	for name, c := range clustersOf(t, build(t, sound())) {
		if c.GetOutlierDetection() != nil || c.GetCommonLbConfig().GetHealthyPanicThreshold() != nil || c.GetHealthChecks() != nil {
			t.Errorf("%s may be left without a host; Envoy does not retry that", name)
		}
		if len(c.GetLoadAssignment().GetEndpoints()) == 0 {
			t.Errorf("%s has no host", name)
		}
	}
}

func TestPitfall07NothingWaitsForAnotherResource(t *testing.T) {
	for name, c := range clustersOf(t, build(t, sound())) {
		if c.GetType() == clusterv3.Cluster_EDS || c.GetEdsClusterConfig() != nil {
			t.Errorf("%s waits for its endpoints", name)
		}
	}
	raw, err := envoy.Bootstrap(envoy.Options{XDS: state.Peer{Address: "/run/xds.sock"}, AdminSocket: "/run/admin.sock"})
	if err != nil {
		t.Fatal(err)
	}
	var b bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	if kind := b.GetDynamicResources().GetAdsConfig().GetApiType(); kind != corev3.ApiConfigSource_GRPC {
		t.Errorf("configuration comes by %v; incremental ADS stalls for 15 s when a cluster changes", kind)
	}
}

func TestPitfall08TheServersNameIsItsOwn(t *testing.T) {
	for _, name := range []string{"openai", "openai~retry"} {
		c := clustersOf(t, build(t, sound()))[name]
		socket := unpack(t, c.GetTransportSocket().GetTypedConfig(), &tlsv3.UpstreamTlsContext{})
		if socket.GetSni() != "api.openai.example" || socket.GetAutoHostSni() {
			t.Errorf("%s: the server name is %q; Envoy would take the client's Host", name, socket.GetSni())
		}
		check := socket.GetCommonTlsContext().GetValidationContext()
		if check.GetTrustedCa().GetFilename() != state.DefaultCAPath || check.GetMatchTypedSubjectAltNames()[0].GetMatcher().GetExact() != "api.openai.example" {
			t.Errorf("%s: the certificate is checked by %v", name, check)
		}
		if c.GetClusterType().GetName() != "envoy.cluster.dns" {
			t.Errorf("%s: its host's name is not looked up", name)
		}
	}
}

func TestPitfall09HostsOfAProviderAreOneGroup(t *testing.T) {
	snap := build(t, sound())
	for name, want := range map[string]int{"vllm": 2, "vllm~retry": 2, "openai": 1, "demo": 1} {
		first, others := 0, 0
		for _, locality := range clustersOf(t, snap)[name].GetLoadAssignment().GetEndpoints() {
			if locality.GetPriority() == 0 {
				first += len(locality.GetLbEndpoints())
				continue
			}
			for _, e := range locality.GetLbEndpoints() {
				others++
				if a := e.GetEndpoint().GetAddress().GetSocketAddress(); a.GetAddress() != "127.0.0.1" || a.GetPortValue() != policy.NoAddressPort {
					t.Errorf("%s: %v gets what the first group does not take", name, a)
				}
			}
		}
		if first != want || others > 1 {
			t.Errorf("%s has %d hosts in its first group, want %d, and %d elsewhere", name, first, want, others)
		}
	}
}

func TestPitfall10ClientsCannotSpeakForEnvoy(t *testing.T) {
	m := manager(t, build(t, sound()), ListenerHTTP)
	if !m.GetUseRemoteAddress().GetValue() {
		t.Error("clients may say where they are")
	}
	ranges := m.GetInternalAddressConfig().GetCidrRanges()
	if len(ranges) == 0 {
		t.Error("clients of private networks may send x-envoy- headers")
	}
	for _, r := range ranges {
		p := netip.PrefixFrom(netip.MustParseAddr(r.GetAddressPrefix()), int(r.GetPrefixLen().GetValue()))
		for _, client := range []string{"127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "203.0.113.9"} {
			if p.Contains(netip.MustParseAddr(client)) {
				t.Errorf("%s may send x-envoy- headers", client)
			}
		}
	}
}

func TestPitfall12TheSidecarLearnsSoonOfABrokenStream(t *testing.T) {
	d := manager(t, build(t, sound()), ListenerEgress).GetDelayedCloseTimeout()
	if d == nil || d.AsDuration() > 200*time.Millisecond {
		t.Errorf("it learns after %v; Envoy's own is a second", d.AsDuration())
	}
}
