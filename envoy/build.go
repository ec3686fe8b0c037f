package envoy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bardo.money/gateway/xds/state"
)

// HTTPOptions is the key of a cluster's HTTP options.
const HTTPOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// Packer packs extensions' messages deterministically, and keeps the first error, so that builders need no error handling. The zero value is ready.
// Not safe for concurrent use.
type Packer struct{ err error }

// Any packs m.
func (p *Packer) Any(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true})
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("pack %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return a
}

// Err returns the first error of Any.
func (p *Packer) Err() error { return p.err }

// JSON returns m in Envoy's JSON form, with the same bytes each time. (protojson varies its white space on purpose.)
func JSON(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Address converts an address. mode is the file mode of a socket that Envoy creates.
func Address(a state.Address, mode uint32) *corev3.Address {
	if a.Pipe != "" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: a.Pipe, Mode: mode}}}
	}
	host := a.Name
	if a.IP.IsValid() {
		host = a.IP.String()
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port)},
	}}}
}

// Endpoint returns a load balancing endpoint at an address.
func Endpoint(at *corev3.Address) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: at}}}
}

// Breakers returns circuit breakers that never open: the sidecar handles admission, and the default of three concurrent retries would silently
// disable failover under load.
func Breakers() *clusterv3.CircuitBreakers {
	many := wrapperspb.UInt32(1_000_000)
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
		{MaxConnections: many, MaxPendingRequests: many, MaxRequests: many, MaxRetries: many},
	}}
}

// PeerCluster returns the cluster of a gRPC server.
func PeerCluster(p *Packer, name string, peer state.Peer) (*clusterv3.Cluster, error) {
	if err := peer.Validate(); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	at, err := state.ParseAddress(peer.Address)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	kind := clusterv3.Cluster_STATIC
	if at.Name != "" {
		kind = clusterv3.Cluster_STRICT_DNS
	}
	c := &clusterv3.Cluster{
		Name:                          name,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: kind},
		ConnectTimeout:                durationpb.New(time.Second),
		CircuitBreakers:               Breakers(),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(64 << 20),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{HTTPOptions: p.Any(grpcOptions())},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{Endpoint(Address(at, 0))}}},
		},
	}
	if peer.TLS != nil {
		c.TransportSocket = TLSSocket(p, peerTLS(name, peer.TLS))
	}
	return c, nil
}

// grpcOptions use HTTP/2 with windows that hold a large body, and detect a dead peer within a minute.
func grpcOptions() *httpv3.HttpProtocolOptions {
	return &httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
				Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
					MaxConcurrentStreams:        wrapperspb.UInt32(1 << 20),
					InitialStreamWindowSize:     wrapperspb.UInt32(1 << 20),
					InitialConnectionWindowSize: wrapperspb.UInt32(16 << 20),
					ConnectionKeepalive: &corev3.KeepaliveSettings{
						Interval: durationpb.New(30 * time.Second), Timeout: durationpb.New(10 * time.Second),
					},
				},
			},
		},
	}}
}

// Validation accepts a certificate of exactly that name, or IP address, signed by one of the roots.
func Validation(name string, roots *corev3.DataSource) *tlsv3.CertificateValidationContext {
	kind := tlsv3.SubjectAltNameMatcher_DNS
	if _, err := netip.ParseAddr(name); err == nil {
		kind = tlsv3.SubjectAltNameMatcher_IP_ADDRESS
	}
	return &tlsv3.CertificateValidationContext{
		TrustedCa: roots,
		MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
			SanType: kind,
			Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
		}},
	}
}

// TLSSocket returns a TLS transport socket, for either direction.
func TLSSocket(p *Packer, context proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: p.Any(context)},
	}
}

func inline(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
