package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/envoy"
)

// ModuleLibrary finds libbardo.so: $BARDO_MODULE, the directory of this program, or the directory lib beside it.
func ModuleLibrary() (string, error) {
	if p := os.Getenv("BARDO_MODULE"); p != "" {
		if _, err := os.Stat(p); err != nil || filepath.Base(p) != envoy.ModuleFile { //nolint:gosec // the operator's own library
			return "", cli.Advise(fmt.Errorf("BARDO_MODULE is %q, which is no file %s", p, envoy.ModuleFile), "set it to the path of the file, or unset it and run `make build`")
		}
		return filepath.Abs(p)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if target, err := filepath.EvalSymlinks(self); err == nil {
		self = target
	}
	dir := filepath.Dir(self)
	for _, p := range []string{filepath.Join(dir, envoy.ModuleFile), filepath.Join(dir, "..", "lib", envoy.ModuleFile)} {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return filepath.Abs(p)
		}
	}
	return "", cli.Advise(
		errors.New("no "+envoy.ModuleFile+" found in "+dir+" or in the directory lib beside it"),
		"run `make build`, or set BARDO_MODULE to the path of the file, or data_path to extproc",
	)
}
