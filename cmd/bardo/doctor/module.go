package doctor

import (
	"context"
	"debug/buildinfo"
	"os/exec"
	"runtime/debug"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/envoy"
)

// Module checks the requirements of a data path in Envoy's process: libbardo.so from the same build as this program, and an Envoy that can load it.
func Module(ctx context.Context) Finding {
	const check = "data_path: module"
	library, err := home.ModuleLibrary()
	if err != nil {
		return failWith(check, err)
	}
	info, err := buildinfo.ReadFile(library)
	if err != nil {
		return fail(check, "run `make build`", "%s is no library that Go has built: %v", library, err)
	}
	if own, ok := debug.ReadBuildInfo(); ok && revision(own) != revision(info) {
		return fail(check, "build both with `make build`", "%s was built from commit %s, and this program from %s", library, revision(info), revision(own))
	}
	path, err := home.EnvoyBinary()
	if err != nil {
		return failWith(check, err)
	}
	ctx, cancel := context.WithTimeout(ctx, envoyTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output() //nolint:gosec // the operator's own Envoy
	if err != nil {
		return fail(check, "install Envoy again with `make tools`, or set ENVOY_BIN to one that runs", "%s does not run: %v", path, err)
	}
	if version, _ := envoyVersion(string(out)); !envoy.TakesModule(version) {
		return fail(check, "use Envoy "+envoy.PinnedVersion()+", which `make tools` installs, or set data_path to extproc",
			"%s is version %s: the interface of libbardo.so is that of Envoy %s", path, version, envoy.PinnedVersion())
	}
	return pass(check, "%s", library)
}

// revision is the commit that a program was built from, marked if there were uncommitted changes; "unknown" without build information.
func revision(info *debug.BuildInfo) string {
	commit, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return commit + changed
}
