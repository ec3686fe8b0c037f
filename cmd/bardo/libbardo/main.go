// Command libbardo builds libbardo.so: the gateway's data path as a dynamic module of Envoy. It is built with -buildmode=c-shared, and used by `bardo up` with
// data_path: module.
package main

import (
	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/run"
	"bardo.money/gateway/extproc/stream/module"
)

func init() {
	module.Register(func(dir string) (module.App, error) {
		return run.StartInside(parts.All(), dir, run.Host{Calls: module.Transport(), Cut: module.Cut})
	})
}

// main does not run: Envoy calls the functions that package module exports.
func main() {}
