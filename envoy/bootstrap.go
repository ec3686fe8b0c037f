package envoy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"bardo.money/gateway/xds/state"
)

// Options are what an Envoy needs before it can reach the control plane.
type Options struct {
	Node           state.Node // the settings of this Envoy; without an id, the control plane already has them
	XDS            state.Peer // the control plane
	AdminSocket    string     // path of Envoy's private admin socket, created with mode 0600
	AdminTCP       string     // host:port that is forwarded to it; "" for none
	Module         string     // configuration of the dynamic module; "" for an Envoy without the data path in its process
	MaxConnections int64      // client connections of all listeners together; 0 means 50,000
}

const (
	clusterAdmin  = "bardo_admin"
	listenerAdmin = "admin"
)

// Bootstrap returns the configuration file of an Envoy, as JSON. Its only possible secret is a client key that is given by its content.
func Bootstrap(o Options) ([]byte, error) {
	o.MaxConnections = cmp.Or(o.MaxConnections, maxConnections)
	admin, err := state.ParseAddress(o.AdminSocket)
	if err != nil || admin.Pipe == "" {
		return nil, errors.Join(fmt.Errorf("admin socket %q, expected an absolute path", o.AdminSocket), err)
	}
	var p Packer
	if o.Node.ID != "" {
		if err := o.Node.Validate(); err != nil {
			return nil, fmt.Errorf("node: %w", err)
		}
	}
	xds, err := PeerCluster(&p, state.ClusterXDS, o.XDS)
	if err != nil {
		return nil, err
	}
	b := &bootstrapv3.Bootstrap{
		Node:             node(o.Node),
		Admin:            &bootstrapv3.Admin{Address: Address(admin, 0o600), IgnoreGlobalConnLimit: true},
		DynamicResources: dynamicResources(),
		StaticResources:  &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{xds}},
		OverloadManager:  overload(&p, o.MaxConnections),
		StatsConfig:      stats(),
	}
	if o.Module != "" {
		b.BootstrapExtensions = []*corev3.TypedExtensionConfig{process(&p, o.Module)}
		b.LayeredRuntime = failureBodies()
	}
	if o.AdminTCP != "" {
		if err := publishAdmin(&p, b, admin, o.AdminTCP); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(p.Err(), b.ValidateAll()); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	return JSON(b)
}

// failureBodies adds the cause of a failed connection to the bodies of Envoy's own answers, which the module's calls get no other way. Clients never see
// these bodies.
func failureBodies() *bootstrapv3.LayeredRuntime {
	const hides = "envoy.reloadable_features.hide_transport_failure_reason_in_response_body"
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name:           "bardo",
		LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: &structpb.Struct{Fields: map[string]*structpb.Value{hides: structpb.NewBoolValue(false)}}},
	}}}
}

// dynamicResources use state-of-the-world ADS: its incremental form stalls for 15 s when a cluster changes.
func dynamicResources() *bootstrapv3.Bootstrap_DynamicResources {
	ads := &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
	return &bootstrapv3.Bootstrap_DynamicResources{
		LdsConfig: ads,
		CdsConfig: ads,
		AdsConfig: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
					ClusterName: state.ClusterXDS,
					RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
						BaseInterval: durationpb.New(100 * time.Millisecond), MaxInterval: durationpb.New(3 * time.Second),
					}},
				},
			}}},
		},
	}
}

func overload(p *Packer, connections int64) *overloadv3.OverloadManager {
	return &overloadv3.OverloadManager{ResourceMonitors: []*overloadv3.ResourceMonitor{{
		Name: "envoy.resource_monitors.global_downstream_max_connections",
		ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: p.Any(&connectionsv3.DownstreamConnectionsConfig{
			MaxActiveDownstreamConnections: connections,
		})},
	}}}
}

// stats keeps the families that an operator reads; a statistic costs memory per cluster and worker.
func stats() *metricsv3.StatsConfig {
	var patterns []*matcherv3.StringMatcher
	for _, prefix := range []string{"cluster.", "http.", "listener.", "listener_manager.", "cluster_manager.", "control_plane.", "server."} {
		patterns = append(patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix}})
	}
	return &metricsv3.StatsConfig{StatsMatcher: &metricsv3.StatsMatcher{
		StatsMatcher: &metricsv3.StatsMatcher_InclusionList{InclusionList: &matcherv3.ListStringMatcher{Patterns: patterns}},
	}}
}

// publishAdmin forwards a TCP port to the admin socket.
func publishAdmin(p *Packer, b *bootstrapv3.Bootstrap, socket state.Address, address string) error {
	at, err := state.ParseAddress(address)
	if err != nil || !at.IP.IsValid() {
		return errors.Join(fmt.Errorf("envoy admin address %q, expected an IP address and a port", address), err)
	}
	b.StaticResources.Clusters = append(b.StaticResources.Clusters, &clusterv3.Cluster{
		Name:                 clusterAdmin,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: clusterAdmin,
			Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{Endpoint(Address(socket, 0))}}},
		},
	})
	b.StaticResources.Listeners = append(b.StaticResources.Listeners, &listenerv3.Listener{
		Name:                  listenerAdmin,
		Address:               Address(at, 0),
		IgnoreGlobalConnLimit: true,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "envoy.filters.network.tcp_proxy",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: p.Any(&tcpproxyv3.TcpProxy{
				StatPrefix:       listenerAdmin,
				ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: clusterAdmin},
			})},
		}}}},
	})
	return nil
}
