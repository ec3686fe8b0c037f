package snapshot

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	groupv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/router/cluster_specifiers/priority_group/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// The route configurations.
const (
	routesClient = "client"
	routesEgress = "egress"
)

// retryOn is every way in which an attempt can fail before its answer begins, and the statuses of retriable.
const retryOn = "connect-failure,refused-stream,reset,reset-before-request,retriable-status-codes"

// retriable returns the final statuses of policy.Retriable: of the informational ones only 101 is final.
func retriable() []uint32 {
	var out []uint32
	for status := http.StatusSwitchingProtocols; status < 600; status++ {
		if policy.Retriable(status) && (status == http.StatusSwitchingProtocols || status >= http.StatusMultipleChoices) {
			out = append(out, uint32(status))
		}
	}
	return out
}

// lasting reports whether the same provider would probably answer with this status again if Envoy retried it. Envoy does not wait for Retry-After.
func lasting(status uint32) bool {
	return policy.Lasting(int(status)) || status == http.StatusTooManyRequests
}

func (b *builder) routes() []types.Resource {
	var out []types.Resource
	if b.HTTP != "" || b.HTTPS != "" {
		out = append(out, b.clientRoutes())
	}
	if b.EgressSocket != "" {
		out = append(out, b.egressRoutes())
	}
	return out
}

func (b *builder) clientRoutes() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:                 routesClient,
		TypedPerFilterConfig: b.everyRequest(),
		VirtualHosts: []*routev3.VirtualHost{{
			Name:                          "any",
			Domains:                       []string{"*"},
			IncludeRequestAttemptCount:    true,
			IncludeAttemptCountInResponse: true,
			Routes:                        append(b.realtimeRoutes(), b.pathRoutes()...),
		}},
		ValidateClusters: wrapperspb.Bool(false),
	}
}

// everyRequest enables the call of the sidecar for requests to any path. Without it no request would reach a provider: the sidecar writes the order of
// clusters, and the default order has only those whose requests the sidecar encodes.
func (b *builder) everyRequest() map[string]*anypb.Any {
	if b.Module {
		return nil
	}
	return map[string]*anypb.Any{extProcFilter: b.Any(&routev3.FilterConfig{Config: &anypb.Any{}})}
}

// realtimePaths matches the paths at which clients open realtime sessions, with any base URL.
const realtimePaths = "(/v1)*/realtime/?"

// realtimeRoutes returns the route of WebSocket handshakes that open a realtime session: to the gateway's own server, which authenticates them. The
// filter that calls the sidecar is not in the chain of upgraded requests. A request that is not upgraded, in spite of its header, is answered by the
// sidecar.
func (b *builder) realtimeRoutes() []*routev3.Route {
	if b.RealtimeSocket == "" {
		return nil
	}
	upgrade := &routev3.HeaderMatcher{
		Name: "upgrade",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: webSocket}, IgnoreCase: true,
		}},
	}
	return []*routev3.Route{{
		Name: "realtime",
		Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: realtimePaths}},
			Headers:       []*routev3.HeaderMatcher{upgrade},
		},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			Timeout:          durationpb.New(0),
			IdleTimeout:      durationpb.New(0), // the server ends sessions that are too long, and pings
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: state.ClusterRealtime},
			UpgradeConfigs:   []*routev3.RouteAction_UpgradeConfig{{UpgradeType: webSocket, Enabled: wrapperspb.Bool(true)}},
		}},
	}}
}

// pathRoutes are the routes that the sidecar selects; it answers everything else itself.
func (b *builder) pathRoutes() []*routev3.Route {
	last := nowhere("unrouted", 404)
	if len(b.Providers) == 0 {
		return []*routev3.Route{last}
	}
	return []*routev3.Route{
		b.failover(state.PathJSON, retriable()),
		b.failover(state.PathAlone, slices.DeleteFunc(retriable(), lasting)),
		last,
	}
}

// bufferLimit limits the bodies that Envoy buffers: a request's for retries, which may be larger than the client's after encoding; an answer's until
// it is complete.
func (b *builder) bufferLimit() *wrapperspb.UInt64Value {
	return wrapperspb.UInt64(max(2*b.MaxBodyBytes, b.MaxAnswer))
}

// failover returns the route of requests forwarded by Envoy: attempt n goes to group n of the request's own order, or of the default one.
func (b *builder) failover(path string, statuses []uint32) *routev3.Route {
	return &routev3.Route{
		Name:                   path,
		Match:                  match(exactly(state.HeaderPath, path)),
		RequestBodyBufferLimit: b.bufferLimit(),
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			Timeout:          durationpb.New(0),
			ClusterSpecifier: &routev3.RouteAction_InlineClusterSpecifierPlugin{InlineClusterSpecifierPlugin: b.order()},
			HashPolicy:       byAffinity(),
			RetryPolicy: &routev3.RetryPolicy{
				RetryOn:               retryOn,
				RetriableStatusCodes:  statuses,
				NumRetries:            wrapperspb.UInt32(1),
				RefreshClusterOnRetry: true,
				RetryBackOff: &routev3.RetryPolicy_RetryBackOff{
					BaseInterval: durationpb.New(time.Millisecond), MaxInterval: durationpb.New(5 * time.Millisecond),
				},
			},
		}},
	}
}

// defaultAttempts is the length of the default order before it repeats its last group; more than a request may have.
const defaultAttempts = 16

// order returns the default order, and a group named after each cluster, for orders in requests. An attempt with an unknown name goes to the default
// order. That contains only retry clusters, whose requests the sidecar encodes or refuses: a request encoded for one provider, with its credentials,
// never reaches another.
func (b *builder) order() *routev3.ClusterSpecifierPlugin {
	groups := &groupv3.PriorityGroupClusterSpecifier{OverrideMetadataNamespace: state.MetadataOrder}
	add := func(name, cluster string) {
		groups.PriorityGroups = append(groups.PriorityGroups, &groupv3.PriorityGroup{
			Name:     name,
			Clusters: []*groupv3.ClusterWeight{{ClusterName: cluster, Weight: wrapperspb.UInt32(1)}},
		})
	}
	if ids := b.ranked(); len(ids) > 0 {
		for i := range defaultAttempts {
			add("attempt "+strconv.Itoa(i+1), state.RetryCluster(ids[i%len(ids)]))
		}
	}
	for _, p := range b.Providers {
		add(state.Cluster(p.ID), state.Cluster(p.ID))
		add(state.RetryCluster(p.ID), state.RetryCluster(p.ID))
	}
	return &routev3.ClusterSpecifierPlugin{Extension: &corev3.TypedExtensionConfig{
		Name:        "envoy.router.cluster_specifier_plugin.priority_group",
		TypedConfig: b.Any(groups),
	}}
}

// ranked returns the enabled providers: those of the order first, the others as configured.
func (b *builder) ranked() []policy.ProviderID {
	enabled := func(id policy.ProviderID) bool {
		return slices.ContainsFunc(b.Providers, func(p state.Provider) bool { return p.ID == id && !p.Disabled })
	}
	var out []policy.ProviderID
	for _, id := range b.Order {
		if enabled(id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for _, p := range b.Providers {
		if !p.Disabled && !slices.Contains(out, p.ID) {
			out = append(out, p.ID)
		}
	}
	return out
}

// egressRoutes send a call of the sidecar's to the cluster that it names. The sidecar itself handles failover of these calls.
func (b *builder) egressRoutes() *routev3.RouteConfiguration {
	admitted := &routev3.HeaderMatcher{
		Name: state.HeaderExchange,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: b.EgressSecret + "."},
		}},
	}
	return &routev3.RouteConfiguration{
		Name: routesEgress,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:                    "any",
			Domains:                 []string{"*"},
			ResponseHeadersToRemove: []string{state.HeaderFailure},
			Routes: []*routev3.Route{
				{
					Name:                   "provider",
					Match:                  match(admitted),
					RequestBodyBufferLimit: b.bufferLimit(),
					TypedPerFilterConfig:   b.unwatched(),
					Action: &routev3.Route_Route{Route: &routev3.RouteAction{
						Timeout:          durationpb.New(0),
						ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: state.HeaderCluster},
						HashPolicy:       byAffinity(),
					}},
				},
				nowhere("refused", 403),
			},
		}},
		ValidateClusters: wrapperspb.Bool(false),
	}
}

// byAffinity chooses among the endpoints of one provider.
func byAffinity() []*routev3.RouteAction_HashPolicy {
	return []*routev3.RouteAction_HashPolicy{{
		PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: state.HeaderAffinity}},
	}}
}

func nowhere(name string, status uint32) *routev3.Route {
	return &routev3.Route{
		Name:   name,
		Match:  match(),
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: status}},
	}
}

func match(headers ...*routev3.HeaderMatcher) *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}, Headers: headers}
}

func exactly(name, value string) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{
		Name: name,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: value},
		}},
	}
}
