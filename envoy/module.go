package envoy

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	bootstrapmodulesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/bootstrap/dynamic_modules/v3"
	modulesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/dynamic_modules/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bardo.money/gateway/xds/state"
)

// ModuleFile is the name of the file with the dynamic module.
const ModuleFile = "lib" + state.ModuleName + ".so"

// ModuleVariable is the environment variable with the directory of ModuleFile, for Envoy.
const ModuleVariable = "ENVOY_DYNAMIC_MODULES_SEARCH_PATH"

// Module returns the dynamic module's configuration. It is never unloaded: its Go runtime cannot be.
func Module() *modulesv3.DynamicModuleConfig {
	return &modulesv3.DynamicModuleConfig{Name: state.ModuleName, DoNotClose: true}
}

// process starts the module before Envoy opens a listener.
func process(p *Packer, config string) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{
		Name: "envoy.bootstrap.dynamic_modules",
		TypedConfig: p.Any(&bootstrapmodulesv3.DynamicModuleBootstrapExtension{
			DynamicModuleConfig: Module(), ExtensionName: state.ModuleProcess, ExtensionConfig: p.Any(wrapperspb.String(config)),
		}),
	}
}

// TakesModule reports whether an Envoy of this version can load the module: its interface is fixed for the patch releases of one minor version, and
// any other Envoy only warns of a different interface, or crashes.
func TakesModule(version string) bool {
	return minor(version) != "" && minor(version) == minor(PinnedVersion())
}

// minor returns "1.40" for "1.40.3".
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[0] + "." + parts[1]
}
