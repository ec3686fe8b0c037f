// Command emptymodule is a libbardo.so with nothing in it, for the benchmark: see package empty. The configuration of its bootstrap extension is the cluster that
// its requests go to.
package main

import (
	"runtime"
	"runtime/debug"

	"bardo.money/gateway/e2e/bench/empty"
	"bardo.money/gateway/extproc/stream/module"
)

func main() {}

func init() {
	module.Register(func(cluster string) (module.App, error) {
		runtime.GOMAXPROCS(2 * runtime.NumCPU()) // both as the gateway has them there
		debug.SetGCPercent(400)
		return app{empty.New(cluster)}, nil
	})
}

type app struct{ *empty.Handler }

// Drain implements module.App.
func (app) Drain() {}

// Shutdown implements module.App.
func (app) Shutdown() {}
