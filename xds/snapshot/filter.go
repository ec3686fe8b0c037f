package snapshot

import (
	_ "embed"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modulesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/xds/state"
)

// The attributes that the sidecar requests.
const (
	attrCluster = "xds.cluster_name"      // the provider
	attrDetails = "response.code_details" // "via_upstream", or why Envoy answered itself
)

func (b *builder) filter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.Any(config)}}
}

// extProcFilter is the name of the filter that calls the sidecar.
const extProcFilter = "envoy.filters.http.ext_proc"

// routerFilters is the filter chain of the client listeners. One ext_proc filter handles both directions; a second one in the same chain would
// truncate answers. It is enabled by the routes: a request that is not valid HTTP has none, and Envoy closes its connection before the sidecar could have
// returned the answer to it.
func (b *builder) routerFilters() []*hcmv3.HttpFilter {
	if b.Module {
		return []*hcmv3.HttpFilter{b.module(state.ModuleClient), b.router()}
	}
	f := b.extProc(state.ModeRouter, state.MetadataAttempts)
	f.ProcessingMode = &extprocv3.ProcessingMode{
		RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
		RequestBodyMode:     extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED,
		RequestTrailerMode:  extprocv3.ProcessingMode_SEND,
		ResponseHeaderMode:  extprocv3.ProcessingMode_SEND,
		ResponseBodyMode:    extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED,
		ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
	}
	f.ResponseAttributes = []string{attrCluster, attrDetails}
	f.AllowContentLengthHeader = true
	calls := b.filter(extProcFilter, f)
	calls.Disabled = true
	return []*hcmv3.HttpFilter{calls, b.router()}
}

// router does not add Envoy's headers to what providers and clients see.
func (b *builder) router() *hcmv3.HttpFilter {
	return b.filter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true})
}

// firstFilters observe an attempt whose request the sidecar has already encoded for the provider.
func (b *builder) firstFilters(cluster string) []*hcmv3.HttpFilter {
	if b.Module {
		return b.moduleAttempt()
	}
	return []*hcmv3.HttpFilter{b.attempt(attemptScript, cluster, "1"), b.withoutInternals(nil), b.codec()}
}

// retryFilters let the sidecar encode the request for the provider of this attempt first. The ext_proc answer that replaces the body drops
// content-length, so the length is sent as metadata.
func (b *builder) retryFilters(cluster string) []*hcmv3.HttpFilter {
	if b.Module {
		return b.moduleAttempt()
	}
	f := b.extProc(state.ModeAttempt, state.Metadata)
	f.ProcessingMode = &extprocv3.ProcessingMode{
		RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
		RequestTrailerMode:  extprocv3.ProcessingMode_SKIP,
		ResponseHeaderMode:  extprocv3.ProcessingMode_SKIP,
		ResponseTrailerMode: extprocv3.ProcessingMode_SKIP,
	}
	f.RequestAttributes = []string{attrCluster}
	f.MessageTimeout = durationpb.New(b.Timeouts.Attempt)
	length := &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		Header: &corev3.HeaderValue{
			Key: "content-length", Value: "%DYNAMIC_METADATA(" + state.Metadata + ":" + state.KeyContentLength + ")%",
		},
	}}}
	return []*hcmv3.HttpFilter{
		b.attempt(retryScript+attemptScript, cluster, ""), b.filter(extProcFilter, f), b.withoutInternals(length), b.codec(),
	}
}

// moduleAttempt encodes the requests of retries, and records the outcome of attempts. The cluster shows which attempts it has to encode.
func (b *builder) moduleAttempt() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{b.module(state.ModuleAttempt), b.withoutInternals(nil), b.codec()}
}

// module returns one of the dynamic module's filters.
func (b *builder) module(name string) *hcmv3.HttpFilter {
	return b.filter("envoy.filters.http.dynamic_modules", &modulesv3.DynamicModuleFilter{
		DynamicModuleConfig: envoy.Module(), FilterName: name,
	})
}

// extProc returns the filter for a mode of the sidecar. metadata is the namespace that is sent with every message.
func (b *builder) extProc(mode, metadata string) *extprocv3.ExternalProcessor {
	namespaces := &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: []string{state.Metadata, state.MetadataOrder}}
	return &extprocv3.ExternalProcessor{
		GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
				ClusterName: state.ClusterExtProc,
			}},
			InitialMetadata: []*corev3.HeaderValue{{Key: state.InitialMode, Value: mode}},
		},
		StatusOnError: &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		MutationRules: &mutationv3.HeaderMutationRules{
			AllowAllRouting: wrapperspb.Bool(true),
			AllowEnvoy:      wrapperspb.Bool(true),
			DisallowIsError: wrapperspb.Bool(true),
		},
		MetadataOptions: &extprocv3.MetadataOptions{
			ReceivingNamespaces:  namespaces,
			ForwardingNamespaces: &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: []string{metadata}},
		},
	}
}

// attemptScript records how an attempt failed, and buffers answers that are not streams until they are complete. retryScript determines the number of
// the attempt, where the cluster does not show it.
var (
	//go:embed attempt.lua
	attemptScript string
	//go:embed attempt_number.lua
	retryScript string
)

// attempt runs a script for every attempt through Envoy; number is empty if the script has to determine it.
func (b *builder) attempt(script, cluster, number string) *hcmv3.HttpFilter {
	about := map[string]*structpb.Value{"cluster": structpb.NewStringValue(cluster)}
	vm := "retry"
	if number != "" {
		about["number"] = structpb.NewStringValue(number)
		vm = "attempt"
	}
	return b.filter(filterLua, &luav3.Lua{
		DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: script}},
		FilterContext:     &structpb.Struct{Fields: about},
		SharedVmId:        vm,
		ClearRouteCache:   wrapperspb.Bool(false),
	})
}

const filterLua = "envoy.filters.http.lua"

// unwatched disables the script: the sidecar observes its own calls.
func (b *builder) unwatched() map[string]*anypb.Any {
	if b.Module {
		return nil
	}
	return map[string]*anypb.Any{filterLua: b.Any(&luav3.LuaPerRoute{Override: &luav3.LuaPerRoute_Disabled{Disabled: true}})}
}

// withoutInternals removes internal headers from requests to the provider.
func (b *builder) withoutInternals(more *mutationv3.HeaderMutation) *hcmv3.HttpFilter {
	var mutations []*mutationv3.HeaderMutation
	for _, name := range internalHeaders {
		mutations = append(mutations, &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Remove{Remove: name}})
	}
	if more != nil {
		mutations = append(mutations, more)
	}
	return b.filter("envoy.filters.http.header_mutation", &headermutationv3.HeaderMutation{
		Mutations: &headermutationv3.Mutations{RequestMutations: mutations},
	})
}

var internalHeaders = []string{
	state.HeaderPath, state.HeaderExchange, state.HeaderCluster, state.HeaderAffinity,
	"x-envoy-attempt-count", "x-envoy-internal", "x-envoy-external-address", "x-envoy-expected-rq-timeout-ms",
	"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-request-id", "via", "forwarded",
}

func (b *builder) codec() *hcmv3.HttpFilter {
	return b.filter("envoy.filters.http.upstream_codec", &codecv3.UpstreamCodec{})
}
