// Package module serves clients' requests inside Envoy's process. It is the Go half of a dynamic module: a program that imports it, registers its
// App and is built with -buildmode=c-shared is a library that Envoy 1.40 loads.
//
// Envoy's configuration names the library "bardo" (libbardo.so in ENVOY_DYNAMIC_MODULES_SEARCH_PATH) in three places:
//   - the bootstrap extension "process". It comes first: Envoy creates bootstrap extensions before clusters and listeners. Its configuration string is
//     given to the function that Register got; if that fails, Envoy does not start. Without this extension the filters below are refused.
//   - the HTTP filter "client" of a listener, whose streams are one client request each.
//   - the upstream HTTP filter "attempt" of a cluster, whose streams are one attempt each: it writes the request of retries (stream.Handler.Attempt) and
//     notes how attempts failed.
//
// Only this package knows Envoy's ABI for dynamic modules. Nothing that it links may call signal.Notify: signals belong to Envoy.
package module

import (
	"errors"
	"net/http"
	"sync"

	"bardo.money/gateway/extproc/stream"
)

// App is what the module serves with. Safe for concurrent use.
type App interface {
	stream.Handler
	// Drain is called when Envoy begins to drain its listeners.
	Drain()
	// Shutdown is called before Envoy exits, while requests are still served. It returns when everything that must be written is written.
	Shutdown()
}

// process is the state of the one module in this process.
var process struct {
	mu    sync.Mutex
	start func(conf string) (App, error)
	app   App
}

// Register sets the function that makes the App. It is called once, on Envoy's main thread, with the configuration of the bootstrap extension. Call
// Register from an init function of the main package.
func Register(start func(conf string) (App, error)) {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.start = start
}

// Transport makes requests through Envoy's clusters, on behalf of the exchange whose context the request has. It fails for others.
func Transport() http.RoundTripper { return transport{} }

type transport struct{}

func (transport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the request's context belongs to no exchange")
}
