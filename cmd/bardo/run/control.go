package run

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/run/relay"
)

// headerTimeout bounds how long a client of the admin interfaces may take to send its headers.
const headerTimeout = 5 * time.Second

// adminHandler serves operators: metrics, health, profiles, and, with the token, the admin API.
func (g *gateway) adminHandler() http.Handler {
	mux := http.NewServeMux()
	guarded := func(pattern string, h http.HandlerFunc) { mux.Handle(pattern, g.noPages(h)) }
	guarded("GET /metrics", g.metricsHandler().ServeHTTP)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	details := g.noPages(http.HandlerFunc(g.serveReady))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("verbose") {
			details.ServeHTTP(w, r)
			return
		}
		g.serveReady(w, r) // load balancers request it by any host name
	})
	adminapi.Profiles(guarded)
	guarded(adminapi.Prefix+"/", g.adminAPI(g.operatorToken).ServeHTTP)
	if g.module {
		guarded("GET /debug/envoy/pprof/", http.StripPrefix("/debug/envoy", underDebug(g.inEnvoy.Proxy())).ServeHTTP)
	}
	return mux
}

// underDebug prefixes a path with /debug.
func underDebug(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/debug" + r.URL.Path
		h.ServeHTTP(w, r)
	})
}

// metricsHandler serves this process's metrics, merged with those of a data path in Envoy's process.
func (g *gateway) metricsHandler() http.Handler {
	if g.module {
		return g.metrics.HandlerWith(g.inEnvoy.Scrape)
	}
	return g.metrics.Handler()
}

// noPages refuses requests of foreign web pages to the admin listener.
func (c *configuration) noPages(h http.Handler) http.Handler { return adminapi.NoPages(c.cfg.Load, h) }

// controlHandler serves the commands of this program. It listens on a Unix socket of mode 0600, since it also changes state.
func (g *gateway) controlHandler() http.Handler {
	mux := http.NewServeMux()
	g.handleProviders(mux)
	g.handleConfig(mux)
	mux.Handle(adminapi.Prefix+"/", g.adminAPI(nil))
	if g.module {
		for _, path := range []string{"/route", "/ledger", "/watch", "/governor", "/mcp"} {
			mux.Handle("GET "+path, g.inEnvoy.Proxy())
		}
		return mux
	}
	g.handleData(mux)
	return mux
}

// handleData serves the command requests that need the data path.
func (g *gateway) handleData(mux *http.ServeMux) {
	mux.HandleFunc("GET /route", g.serveRoute)
	mux.HandleFunc("GET /ledger", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, g.ledgerState()) })
	mux.HandleFunc("GET /mcp", control.ServeMCP(g.gate.MCPServers))
	mux.HandleFunc("GET /watch", g.serveWatch)
	mux.HandleFunc("GET /finished", relay.Serve(&g.finished))
	mux.HandleFunc("GET /alerts", relay.Serve(&g.alerts))
	mux.HandleFunc("GET /governor", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, g.gate.Governor.State()) })
}

// serveRoute answers a dry run, with the configuration and health in force.
func (g *gateway) serveRoute(w http.ResponseWriter, r *http.Request) {
	e, err := g.parts.Explain(r.URL.Query(), g.gate, g.providerStates())
	if err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, e)
}

// planeHandler serves the commands of this program on a control plane that runs alone.
func (g *gateway) planeHandler() http.Handler {
	mux := http.NewServeMux()
	g.handleProviders(mux)
	g.handleConfig(mux)
	mux.Handle(adminapi.Prefix+"/", g.adminAPI(nil))
	return mux
}

func (g *gateway) handleProviders(mux *http.ServeMux) {
	mux.HandleFunc("GET /providers", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, g.shownProviders()) })
	mux.HandleFunc("POST /providers/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		if err := g.switchProvider(r.Context(), r.PathValue("name"), r.PathValue("verb")); err != nil {
			writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, g.shownProviders())
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has disconnected
}

// serveHTTP serves on l until ctx is done.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
