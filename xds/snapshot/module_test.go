package snapshot

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	modulesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/xds/state"
)

// inEnvoy is a gateway whose data path is in Envoy's process.
func inEnvoy() state.State {
	s := sound()
	s.Module, s.ExtProc = true, state.Peer{}
	return s
}

// moduleFilters are the names of the module's filters in a chain.
func moduleFilters(t *testing.T, chain []*hcmv3.HttpFilter) (out []string) {
	t.Helper()
	for _, f := range chain {
		if f.GetName() != "envoy.filters.http.dynamic_modules" {
			continue
		}
		m := unpack(t, f.GetTypedConfig(), &modulesv3.DynamicModuleFilter{})
		if m.GetDynamicModuleConfig().GetName() != state.ModuleName || !m.GetDynamicModuleConfig().GetDoNotClose() {
			t.Errorf("the module is %v", m.GetDynamicModuleConfig())
		}
		out = append(out, m.GetFilterName())
	}
	return out
}

func TestRequestsStayInEnvoysProcess(t *testing.T) {
	snap := build(t, inEnvoy())
	if got := moduleFilters(t, manager(t, snap, ListenerHTTP).GetHttpFilters()); !slices.Equal(got, []string{state.ModuleClient}) {
		t.Errorf("the client listener has the filters %v", got)
	}
	if snap.GetResources(resourcev3.ClusterType)[state.ClusterExtProc] != nil {
		t.Error("there is a cluster for a sidecar")
	}
	for _, name := range []string{state.Cluster("openai"), state.RetryCluster("openai")} {
		c := resource[*clusterv3.Cluster](t, snap, resourcev3.ClusterType, name)
		options := unpack(t, c.GetTypedExtensionProtocolOptions()[envoy.HTTPOptions], &httpv3.HttpProtocolOptions{})
		if got := moduleFilters(t, options.GetHttpFilters()); !slices.Equal(got, []string{state.ModuleAttempt}) {
			t.Errorf("cluster %s has the filters %v", name, got)
		}
	}
}
