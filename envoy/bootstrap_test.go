package envoy

import (
	"bytes"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"bardo.money/gateway/xds/state"
)

func read(t *testing.T, o Options) *bootstrapv3.Bootstrap {
	t.Helper()
	raw, err := Bootstrap(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(raw, b); err != nil {
		t.Fatal(err)
	}
	return b
}

var options = Options{XDS: state.Peer{Address: "/run/xds.sock"}, AdminSocket: "/run/admin.sock"}

func TestBootstrap(t *testing.T) {
	b := read(t, options)
	if kind := b.GetDynamicResources().GetAdsConfig().GetApiType(); kind != corev3.ApiConfigSource_GRPC {
		t.Errorf("configuration comes by %v; incremental ADS stalls for seconds when a cluster changes", kind)
	}
	pipe := b.GetAdmin().GetAddress().GetPipe()
	if pipe.GetPath() != "/run/admin.sock" || pipe.GetMode() != 0o600 {
		t.Errorf("the admin interface is at %v", pipe)
	}
	if len(b.GetStaticResources().GetListeners()) != 0 {
		t.Error("the admin interface is on the network")
	}
	if b.GetNode().GetId() != state.NodeID {
		t.Errorf("node %q", b.GetNode().GetId())
	}
}

// TestOnlyTheModuleIsToldWhyAConnectionFailed checks the bodies of Envoy's own answers, which only the module reads.
func TestOnlyTheModuleIsToldWhyAConnectionFailed(t *testing.T) {
	if l := read(t, options).GetLayeredRuntime(); l != nil {
		t.Errorf("%v", l)
	}
	o := options
	o.Module = "{}"
	layers := read(t, o).GetLayeredRuntime().GetLayers()
	if len(layers) != 1 || layers[0].GetStaticLayer().GetFields()["envoy.reloadable_features.hide_transport_failure_reason_in_response_body"].GetBoolValue() {
		t.Errorf("%v", layers)
	}
}

func TestTheBootstrapIsTheSameEachTime(t *testing.T) {
	first, err := Bootstrap(options)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if again, _ := Bootstrap(options); !bytes.Equal(first, again) {
			t.Fatal("two bootstraps of the same options differ")
		}
	}
}

func TestAControlPlaneBehindTLSIsChecked(t *testing.T) {
	o := options
	o.XDS = state.Peer{Address: "xds.example:18000", TLS: &state.TLS{CAPEM: []byte("ca"), ServerName: "xds.example"}}
	c := read(t, o).GetStaticResources().GetClusters()[0]
	if c.GetTransportSocket().GetName() != "envoy.transport_sockets.tls" || c.GetType().String() != "STRICT_DNS" {
		t.Errorf("the cluster is %v", c)
	}
}

func TestBootstrapRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no control plane":        {func(o *Options) { o.XDS = state.Peer{} }, "bardo_xds"},
		"a relative admin socket": {func(o *Options) { o.AdminSocket = "admin.sock" }, "admin socket"},
		"an admin port by name":   {func(o *Options) { o.AdminTCP = "example.test:1" }, "admin address"},
	} {
		o := options
		tt.change(&o)
		if _, err := Bootstrap(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
