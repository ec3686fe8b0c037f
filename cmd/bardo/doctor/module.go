package doctor

import (
	"context"
	"debug/buildinfo"
	"os/exec"
	"runtime/debug"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/envoy"
)

// Module looks at what a data path in Envoy's process needs: libbardo.so, of this program's build, and an Envoy that can load it.
func Module(ctx context.Context) Finding {
	const check = "data_path: module"
	library, err := home.ModuleLibrary()
	if err != nil {
		return brokenBy(check, err)
	}
	info, err := buildinfo.ReadFile(library)
	if err != nil {
		return broken(check, "run `make build`", "%s is no library that Go has built: %v", library, err)
	}
	if own, ok := debug.ReadBuildInfo(); ok && revision(own) != revision(info) {
		return broken(check, "build both with `make build`", "%s was built from commit %s, and this program from %s", library, revision(info), revision(own))
	}
	path, err := home.EnvoyBinary()
	if err != nil {
		return brokenBy(check, err)
	}
	ctx, cancel := context.WithTimeout(ctx, envoyPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output() //nolint:gosec // the operator's own Envoy
	if err != nil {
		return broken(check, "install Envoy again with `make tools`, or set ENVOY_BIN to one that runs", "%s does not run: %v", path, err)
	}
	if version, _ := envoyVersion(string(out)); !envoy.TakesModule(version) {
		return broken(check, "use Envoy "+envoy.PinnedVersion()+", which `make tools` installs, or set data_path to extproc",
			"%s is version %s: the interface of libbardo.so is that of Envoy %s", path, version, envoy.PinnedVersion())
	}
	return fine(check, "%s", library)
}

// revision is the commit that a program was built from, with a mark if files were changed; "unknown" where the build did not stamp it.
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
