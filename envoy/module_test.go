package envoy

import (
	"testing"

	bootstrapmodulesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/bootstrap/dynamic_modules/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bardo.money/gateway/xds/state"
)

func TestTheModuleStartsWithEnvoy(t *testing.T) {
	o := options
	o.Module = "/run/bardo"
	all := read(t, o).GetBootstrapExtensions()
	if len(all) != 1 {
		t.Fatalf("the extensions are %v", all)
	}
	var got bootstrapmodulesv3.DynamicModuleBootstrapExtension
	var config wrapperspb.StringValue
	if err := all[0].GetTypedConfig().UnmarshalTo(&got); err != nil {
		t.Fatal(err)
	}
	if err := got.GetExtensionConfig().UnmarshalTo(&config); err != nil {
		t.Fatal(err)
	}
	if got.GetExtensionName() != state.ModuleProcess || got.GetDynamicModuleConfig().GetName() != state.ModuleName || config.GetValue() != o.Module {
		t.Errorf("the extension is %v", &got)
	}
}

func TestWhichEnvoysTakeTheModule(t *testing.T) {
	for version, want := range map[string]bool{
		PinnedVersion(): true, "1.40.9": true, "1.41.0": false, "1.39.0": false, "1.4.0": false, "1.40": false, "": false,
	} {
		if got := TakesModule(version); got != want {
			t.Errorf("version %q: %t", version, got)
		}
	}
}
