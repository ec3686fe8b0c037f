package snapshot

import (
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	streamlogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/xds/state"
)

// The listeners.
const (
	ListenerHTTP   = "http"
	ListenerHTTPS  = "https"
	ListenerEgress = "egress"
)

const (
	secretServer = "server_certificate"
	serverName   = "bardo"
	// A connection's buffers are small: bodies stream through the sidecar, and a client that does not read slows down its provider.
	connectionBuffer = 1 << 20
	// A client's are smaller: Envoy reads up to this much before it forwards it, so the sidecar processes the beginning of a large request while
	// Envoy reads its rest, and copied data is still in the processor's cache.
	clientBuffer = 128 << 10
)

func (b *builder) listeners() []types.Resource {
	var out []types.Resource
	if b.HTTP != "" {
		out = append(out, b.listener(ListenerHTTP, listen(b.HTTP), clientBuffer, b.clientManager(ListenerHTTP), nil))
	}
	if b.HTTPS != "" {
		out = append(out, b.listener(ListenerHTTPS, listen(b.HTTPS), clientBuffer, b.clientManager(ListenerHTTPS), b.serverTLS()))
	}
	if b.EgressSocket != "" {
		at := envoy.Address(state.Address{Pipe: b.EgressSocket}, 0o600)
		egress := b.listener(ListenerEgress, at, connectionBuffer, b.egressManager(), nil)
		egress.IgnoreGlobalConnLimit = true
		egress.TrafficDirection = corev3.TrafficDirection_OUTBOUND // is not drained with the others
		out = append(out, egress)
	}
	return out
}

// listen returns the address of a validated "host:port".
func listen(s string) *corev3.Address {
	a, _ := state.ParseAddress(s)
	return envoy.Address(a, 0)
}

func (b *builder) listener(
	name string, at *corev3.Address, buffer uint32, m *hcmv3.HttpConnectionManager, tls *corev3.TransportSocket,
) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:                          name,
		Address:                       at,
		TrafficDirection:              corev3.TrafficDirection_INBOUND,
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(buffer),
		FilterChains: []*listenerv3.FilterChain{{
			TransportSocket: tls,
			Filters: []*listenerv3.Filter{{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: b.Any(m)},
			}},
		}},
	}
}

// clientManager accepts whatever a client sends, and normalizes the request before any decision about it.
func (b *builder) clientManager(name string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix:                   name,
		RouteSpecifier:               rds(routesClient),
		HttpFilters:                  b.routerFilters(),
		ServerName:                   serverName,
		UseRemoteAddress:             wrapperspb.Bool(true),
		SkipXffAppend:                true,
		InternalAddressConfig:        noInternalAddresses(),
		GenerateRequestId:            wrapperspb.Bool(true),
		NormalizePath:                wrapperspb.Bool(true),
		MergeSlashes:                 true,
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD,
		StreamIdleTimeout:            durationpb.New(b.Timeouts.Client),
		RequestTimeout:               durationpb.New(b.Timeouts.Upload),
		RequestHeadersTimeout:        durationpb.New(30 * time.Second),
		// A client that is still uploading can read its refusal, and one that pauses reading gets its last bytes. The cost: if the sidecar dies, an
		// HTTP/1.1 client sees the broken stream that much later.
		DelayedCloseTimeout: durationpb.New(5 * time.Second),
		MaxRequestHeadersKb: wrapperspb.UInt32(96),
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			IdleTimeout:                  durationpb.New(10 * time.Minute),
			MaxHeadersCount:              wrapperspb.UInt32(200),
			HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_DROP_HEADER,
		},
		// Some reverse proxies use HTTP/1.0 to their backends by default.
		HttpProtocolOptions: &corev3.Http1ProtocolOptions{EnableTrailers: true, AcceptHttp_10: true},
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams:        wrapperspb.UInt32(1000),
			InitialStreamWindowSize:     wrapperspb.UInt32(1 << 20),
			InitialConnectionWindowSize: wrapperspb.UInt32(8 << 20),
			ConnectionKeepalive: &corev3.KeepaliveSettings{
				Interval: durationpb.New(time.Minute), Timeout: durationpb.New(20 * time.Second),
			},
		},
		LocalReplyConfig: b.localReplies(),
		AccessLog:        b.accessLog(),
		// Only the route of realtime sessions is upgraded; see realtimeRoute.
		UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{{
			UpgradeType: webSocket, Enabled: wrapperspb.Bool(false), Filters: []*hcmv3.HttpFilter{b.router()},
		}},
	}
}

// webSocket is the upgrade of realtime sessions, in lower case.
const webSocket = "websocket"

// noInternalAddresses makes every client external, including loopback, so that Envoy drops the x-envoy- headers that clients send.
func noInternalAddresses() *hcmv3.HttpConnectionManager_InternalAddressConfig {
	return &hcmv3.HttpConnectionManager_InternalAddressConfig{CidrRanges: []*corev3.CidrRange{
		{AddressPrefix: "192.0.2.255", PrefixLen: wrapperspb.UInt32(32)},
	}}
}

// egressManager serves only the sidecar: it adds nothing to a request, has no timeouts, and closes a broken stream without the delay meant for
// clients.
func (b *builder) egressManager() *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix:          ListenerEgress,
		CodecType:           hcmv3.HttpConnectionManager_HTTP1,
		HttpProtocolOptions: &corev3.Http1ProtocolOptions{EnableTrailers: true}, // receipts of enclaves' streams
		RouteSpecifier:      rds(routesEgress),
		HttpFilters:         []*hcmv3.HttpFilter{b.router()},
		ServerName:          serverName,
		SkipXffAppend:       true,
		GenerateRequestId:   wrapperspb.Bool(false),
		StreamIdleTimeout:   durationpb.New(0),
		RequestTimeout:      durationpb.New(0),
		DelayedCloseTimeout: durationpb.New(50 * time.Millisecond),
		MaxRequestHeadersKb: wrapperspb.UInt32(96),
		LocalReplyConfig:    b.egressReplies(),
		UpgradeConfigs:      []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: webSocket}},
		AccessLog:           b.accessLog(),
	}
}

func rds(name string) *hcmv3.HttpConnectionManager_Rds {
	return &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: name, ConfigSource: ads()}}
}

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// serverTLS refers to the certificate by name, so that a new one replaces it without draining the listener.
func (b *builder) serverTLS() *corev3.TransportSocket {
	return envoy.TLSSocket(&b.Packer, &tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsParams:                      &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
		AlpnProtocols:                  []string{"h2", "http/1.1"},
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: secretServer, SdsConfig: ads()}},
	}})
}

// secrets returns the TLS listener's certificate. It must not contain a cluster's secret: the cache answers only requests for all of its resources,
// and Envoy requests a cluster's secret before a listener's.
func (b *builder) secrets() []types.Resource {
	if b.HTTPS == "" {
		return nil
	}
	return []types.Resource{&tlsv3.Secret{
		Name: secretServer,
		Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline(b.CertPEM), PrivateKey: inline(b.KeyPEM),
		}},
	}}
}

func inline(data []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: data}}
}

// accessLog writes one line per request to standard error: its outcome, never its content.
func (b *builder) accessLog() []*accesslogv3.AccessLog {
	if !b.AccessLog {
		return nil
	}
	fields := map[string]*structpb.Value{}
	for name, command := range map[string]string{
		"method": "%REQ(:METHOD)%", "path": "%PATH(NQ)%", "status": "%RESPONSE_CODE%", "details": "%RESPONSE_CODE_DETAILS%",
		"flags": "%RESPONSE_FLAGS%", "cluster": "%UPSTREAM_CLUSTER%", "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
		"ms": "%DURATION%", "received": "%BYTES_RECEIVED%", "sent": "%BYTES_SENT%", "route": "%ROUTE_NAME%",
	} {
		fields[name] = structpb.NewStringValue(command)
	}
	return []*accesslogv3.AccessLog{{
		Name: "envoy.access_loggers.stderr",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.Any(&streamlogv3.StderrAccessLog{
			AccessLogFormat: &streamlogv3.StderrAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: &structpb.Struct{Fields: fields}},
			}},
		})},
	}}
}
