// Package module serves clients' requests inside Envoy's process. It is the Go half of a dynamic module: a program that imports it, registers its
// App and is built with -buildmode=c-shared is a library that Envoy 1.40 loads.
//
// Envoy's configuration names the library "bardo" (libbardo.so in ENVOY_DYNAMIC_MODULES_SEARCH_PATH) in three places:
//   - the bootstrap extension "process". It comes first: Envoy creates bootstrap extensions before clusters and listeners. Its configuration string is
//     given to the function that Register got; if that fails, Envoy does not start. Without this extension the filters below are refused.
//   - the HTTP filter "client" of a listener, whose streams are one client request each.
//   - the upstream HTTP filter "attempt" of a cluster, whose streams are one attempt each: it writes the request of retries (stream.Handler.Attempt),
//     holds answers that are no streams until they are whole, and notes how attempts failed.
//
// As far as nothing has to wait, a request is served by a coroutine on the thread of Envoy's worker, then by a goroutine. Envoy's hooks run
// on that thread, where nothing may wait: they copy what came and return. What a goroutine does to the request is run there as soon as Envoy's scheduler
// calls back. A panic ends one request: every hook, and every goroutine of a request, recovers.
//
// A worker's thread keeps a P of Go's runtime for a while after a hook. With none to spare, a goroutine that the hook woke waits for milliseconds until the
// runtime takes that P back: an App should set GOMAXPROCS to twice the number of cores when it is made.
//
// Only this package knows Envoy's ABI for dynamic modules. Nothing that it links may call signal.Notify: signals belong to Envoy. Go cannot be unloaded:
// another version of the library needs another Envoy.
package module

// #include "abi.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
)

// App is the application that serves the module's requests. Safe for concurrent use.
type App interface {
	stream.Handler
	// Drain is called when Envoy begins to drain its listeners.
	Drain()
	// Shutdown is called before Envoy exits, while requests are still served. It returns when everything that must be written is written.
	Shutdown()
}

// process is the module's state in this process.
var process struct {
	mu    sync.Mutex
	start func(conf string) (App, error)
	app   App // set before the first filter is made

	holds *coroutine.Reports // holds of the workers' threads
}

// Register sets the function that makes the App. It is called once, on Envoy's main thread, with the configuration of the bootstrap extension. Call
// Register from an init function of the main package.
func Register(start func(conf string) (App, error)) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.start = start
}

// maxWorkers is the maximum number of Envoy's worker threads (--concurrency).
const maxWorkers = C.MAX_WORKERS

// begin makes the App.
func begin(conf string, concurrency int) (err error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a panic: %v\n%s", r, debug.Stack())
		}
	}()
	switch {
	case process.start == nil:
		return errors.New("the library registered nothing to serve with")
	case process.app != nil:
		return errors.New("the bootstrap extension is configured twice")
	case concurrency > maxWorkers:
		return fmt.Errorf("envoy has %d workers, at most %d are supported: set --concurrency", concurrency, maxWorkers)
	}
	app, err := process.start(conf)
	if err != nil {
		return err
	}
	process.app = app
	process.holds = coroutine.NewReports(app.Held)
	return watch(concurrency)
}

// started reports whether there is an App.
func started() bool {
	process.mu.Lock()
	defer process.mu.Unlock()
	return process.app != nil
}
