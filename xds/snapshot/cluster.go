package snapshot

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	proxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/http_11_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// clusters returns two clusters per provider, and the sidecar's unless the data path is in Envoy's process. A disabled provider keeps its clusters,
// so that requests in flight finish.
func (b *builder) clusters() ([]types.Resource, error) {
	var out []types.Resource
	if !b.Module {
		sidecar, err := envoy.PeerCluster(&b.Packer, state.ClusterExtProc, b.ExtProc)
		if err != nil {
			return nil, err
		}
		out = append(out, sidecar)
	}
	if b.RealtimeSocket != "" {
		out = append(out, b.realtimeServer())
	}
	for _, p := range b.Providers {
		out = append(out,
			b.provider(p, state.Cluster(p.ID), b.firstFilters(state.Cluster(p.ID))),
			b.provider(p, state.RetryCluster(p.ID), b.retryFilters(state.RetryCluster(p.ID))),
		)
		if p.Realtime && b.RealtimeSocket != "" {
			out = append(out, b.sessions(p))
		}
	}
	return out, nil
}

// provider returns a cluster without outlier ejection and with the default panic threshold: Envoy does not retry on a cluster without a healthy host,
// so a host is always tried, and health determines the order of clusters.
func (b *builder) provider(p state.Provider, name string, filters []*hcmv3.HttpFilter) *clusterv3.Cluster {
	first := p.Endpoints[0]
	c := &clusterv3.Cluster{
		Name:                          name,
		ConnectTimeout:                durationpb.New(cmp.Or(p.Connect, b.Timeouts.Connect)),
		LbPolicy:                      clusterv3.Cluster_LEAST_REQUEST,
		CircuitBreakers:               envoy.Breakers(),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{envoy.HTTPOptions: b.Any(upstreamOptions(first.Scheme, filters))},
		LoadAssignment:                assignment(name, p.Endpoints),
	}
	if p.Proxy.IsValid() && first.Scheme == state.HTTPS {
		c.LoadAssignment = named(name, p.Endpoints)
	}
	b.discover(c, p)
	if len(p.Endpoints) > 1 {
		hashByAffinity(c)
	}
	if first.Scheme == state.HTTPS {
		c.TransportSocket = envoy.TLSSocket(&b.Packer, providerTLS(first.Host, cmp.Or(p.CAPath, b.CAPath)))
		if p.Proxy.IsValid() {
			c.TransportSocket = b.throughProxy(p.Proxy, c.TransportSocket)
		}
	}
	if first.Scheme != state.Unix {
		c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
			KeepaliveTime: wrapperspb.UInt32(30), KeepaliveInterval: wrapperspb.UInt32(10), KeepaliveProbes: wrapperspb.UInt32(3),
		}}
	}
	return c
}

// overload is the limit of a host's load, in percent of the mean, above which requests with its affinity go to the next host.
const overload = 125

// hashByAffinity sends requests with the same affinity to one host, and others to a random one.
func hashByAffinity(c *clusterv3.Cluster) {
	c.LbPolicy = clusterv3.Cluster_RING_HASH
	c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{
		ConsistentHashingLbConfig: &clusterv3.Cluster_CommonLbConfig_ConsistentHashingLbConfig{HashBalanceFactor: wrapperspb.UInt32(overload)},
	}
}

// sessions returns the cluster of a provider's realtime sessions. No script observes them: the gateway does.
func (b *builder) sessions(p state.Provider) *clusterv3.Cluster {
	c := b.provider(p, state.RealtimeCluster(p.ID), nil)
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{envoy.HTTPOptions: b.Any(upstreamOptions("", []*hcmv3.HttpFilter{b.withoutInternals(nil), b.codec()}))}
	return c
}

// realtimeServer returns the cluster of the gateway's own server of realtime sessions.
func (b *builder) realtimeServer() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                          state.ClusterRealtime,
		ConnectTimeout:                durationpb.New(b.Timeouts.Connect),
		CircuitBreakers:               envoy.Breakers(),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{envoy.HTTPOptions: b.Any(upstreamOptions(state.Unix, nil))},
		LoadAssignment:                assignment(state.ClusterRealtime, []state.Endpoint{{Scheme: state.Unix, Pipe: b.RealtimeSocket}}),
	}
}

// throughProxy connects to a proxy, asks it by CONNECT for a connection to the host, and uses a transport socket over that.
func (b *builder) throughProxy(proxy netip.AddrPort, over *corev3.TransportSocket) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.http_11_proxy",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: b.Any(&proxyv3.Http11ProxyUpstreamTransport{
			TransportSocket: over, DefaultProxyAddress: socket(proxy.Addr().String(), proxy.Port()),
		})},
	}
}

// named are endpoints that a proxy is asked for by their names. Envoy also needs an address of each, to which it never connects: they are of the network for
// benchmarks (RFC 2544), which is routed nowhere, and the ports are the hosts'.
func named(name string, endpoints []state.Endpoint) *endpointv3.ClusterLoadAssignment {
	locality, at := &endpointv3.LocalityLbEndpoints{}, netip.MustParseAddr("198.18.0.0")
	for _, e := range endpoints {
		at = at.Next()
		to := envoy.Endpoint(socket(at.String(), e.Port))
		if to.GetEndpoint().Hostname = e.Host; strings.Contains(e.Host, ":") { // IPv6
			to.GetEndpoint().Hostname = "[" + e.Host + "]"
		}
		locality.LbEndpoints = append(locality.LbEndpoints, to)
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{locality}}
}

// discover sets how hosts are found. A proxy finds them by itself.
func (b *builder) discover(c *clusterv3.Cluster, p state.Provider) {
	if p.Proxy.IsValid() || !slices.ContainsFunc(p.Endpoints, state.Endpoint.IsName) {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		return
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: "envoy.cluster.dns",
		TypedConfig: b.Any(&dnsv3.DnsCluster{
			DnsRefreshRate: durationpb.New(30 * time.Second),
			DnsFailureRefreshRate: &dnsv3.DnsCluster_RefreshRate{
				BaseInterval: durationpb.New(time.Second), MaxInterval: durationpb.New(5 * time.Second),
			},
			RespectDnsTtl:          true,
			DnsMinRefreshRate:      durationpb.New(5 * time.Second),
			DnsLookupFamily:        commondnsv3.DnsLookupFamily_V4_PREFERRED,
			TypedDnsResolverConfig: b.resolver(),
		}),
	}}
	c.LoadAssignment.Endpoints = append(c.LoadAssignment.Endpoints, unresolved())
}

// resolver has short timeouts, because Envoy does not listen before every name was looked up once.
func (b *builder) resolver() *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{
		Name: "envoy.network.dns_resolver.cares",
		TypedConfig: b.Any(&caresv3.CaresDnsResolverConfig{
			QueryTimeoutSeconds: wrapperspb.UInt64(1), QueryTries: wrapperspb.UInt32(2),
		}),
	}
}

// unresolved is a lower-priority host for the time in which no name of a cluster resolves: it refuses connections, after which Envoy fails over. For
// a cluster without hosts Envoy would answer with an error instead.
func unresolved() *endpointv3.LocalityLbEndpoints {
	return &endpointv3.LocalityLbEndpoints{
		Priority:    1,
		LbEndpoints: []*endpointv3.LbEndpoint{envoy.Endpoint(socket(policy.NoAddressHost, policy.NoAddressPort))},
	}
}

func assignment(name string, endpoints []state.Endpoint) *endpointv3.ClusterLoadAssignment {
	locality := &endpointv3.LocalityLbEndpoints{}
	for _, e := range endpoints {
		at := envoy.Address(state.Address{Pipe: e.Pipe}, 0)
		if e.Scheme != state.Unix {
			at = socket(e.Host, e.Port)
		}
		locality.LbEndpoints = append(locality.LbEndpoints, envoy.Endpoint(at))
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{locality}}
}

func socket(host string, port uint16) *corev3.Address {
	return envoy.Address(state.Address{Name: host, Port: port}, 0)
}

// How long connections may be idle: less than servers keep them open, so that no request is sent on one that its server is closing. Load balancers of
// public APIs keep them for a minute and more, and servers without one (uvicorn of vLLM, Node's of MCP servers) for 5 s.
const (
	idleTLS   = 55 * time.Second
	idlePlain = 4 * time.Second
)

// upstreamOptions let TLS choose the protocol, and use HTTP/1.1 in plain text.
func upstreamOptions(scheme string, filters []*hcmv3.HttpFilter) *httpv3.HttpProtocolOptions {
	idle := idlePlain
	if scheme == state.HTTPS {
		idle = idleTLS
	}
	o := &httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(idle)},
		HttpFilters:               filters,
	}
	if scheme == state.HTTPS {
		o.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_AutoConfig{AutoConfig: &httpv3.HttpProtocolOptions_AutoHttpConfig{
			HttpProtocolOptions:  http1(),
			Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
		}}
		return o
	}
	o.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
				HttpProtocolOptions: http1(),
			},
		},
	}
	return o
}

// http1 forwards trailers, as HTTP/2 does: the receipt of an enclave's stream is in one.
func http1() *corev3.Http1ProtocolOptions { return &corev3.Http1ProtocolOptions{EnableTrailers: true} }

// providerTLS sets the server name itself: Envoy would otherwise derive it from the client's Host header.
func providerTLS(host, roots string) *tlsv3.UpstreamTlsContext {
	return &tlsv3.UpstreamTlsContext{
		Sni: host,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams: &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
				ValidationContext: envoy.Validation(host, &corev3.DataSource{
					Specifier: &corev3.DataSource_Filename{Filename: roots},
				}),
			},
		},
	}
}
