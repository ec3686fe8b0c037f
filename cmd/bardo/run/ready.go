package run

import (
	"context"
	"net/http"
	"time"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/run/module"
	"bardo.money/gateway/extproc/api"
)

// serveReady answers /readyz on the admin listener. With ?verbose it also lists problems that do not prevent serving.
func (g *gateway) serveReady(w http.ResponseWriter, r *http.Request) {
	answer, status := readiness{Status: "ready"}, http.StatusOK
	if answer.Reason = g.dataProblem(r.Context()); answer.Reason != "" {
		answer.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	if g.draining.Load() || !g.ready.Load() {
		answer.Status, status = "not ready", http.StatusServiceUnavailable
	}
	if r.URL.Query().Has("verbose") {
		answer.Checks = g.checks()
	}
	writeJSON(w, status, answer)
}

type readiness struct {
	Status string            `json:"status"`
	Reason string            `json:"reason,omitempty"`
	Checks []api.ReadyDetail `json:"checks,omitempty"`
}

// checks are what /readyz?verbose shows.
func (g *gateway) checks() []api.ReadyDetail {
	why := g.configStatus().Problem()
	checks := []api.ReadyDetail{{Name: "configuration", OK: why == "", Detail: why}}
	if why := g.dataProblem(context.Background()); g.books != nil || g.module {
		checks = append(checks, api.ReadyDetail{Name: "ledger", OK: why == "", Detail: why})
	}
	checks = append(append(append(checks, g.sharedChecks()...), g.modelChecks()...), g.injectionChecks()...)
	return append(checks, control.MCPChecks(g.mcpSource())...)
}

// mcpSource says where the state of the MCP servers is; nil in a control plane that runs alone.
func (g *gateway) mcpSource() control.MCPSource {
	switch {
	case g.gate != nil:
		return control.LocalMCP(g.gate.MCPServers)
	case g.module:
		return control.RemoteMCP(g.inEnvoy.Call)
	}
	return nil
}

// stateTime bounds how long the data path in Envoy's process may take to report its state.
const stateTime = time.Second

// dataProblem is why the data path cannot serve; "" if it can.
func (g *gateway) dataProblem(ctx context.Context) string {
	if !g.module {
		return g.ledgerProblem()
	}
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	s, err := g.inEnvoy.State(ctx)
	if err != nil {
		return module.ErrUnreachable.Error()
	}
	return s.Reason
}

// sharedChecks are the checks of the stores that gateways share.
func (g *gateway) sharedChecks() []api.ReadyDetail {
	if !g.module {
		return g.sharedStores()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stateTime)
	defer cancel()
	s, _ := g.inEnvoy.State(ctx) // on an error the ledger's check reports it
	return s.Shared
}

// sharedStores are the checks of this process's shared stores, and of the ledger's.
func (d *dataPath) sharedStores() (checks []api.ReadyDetail) {
	if d.books != nil {
		c := api.ReadyDetail{Name: "ledger store", OK: true}
		if f := d.books.StoreFailure(); f != nil {
			c.OK, c.Detail = false, "it cannot be written, and charges wait in the charge log: "+f.Reason
		}
		checks = append(checks, c)
	}
	return append(append(checks, d.answers.Checks()...), d.limiter.Checks()...)
}

// ledgerProblem is why the ledger cannot be written; "" if it can, or if this process has none.
func (d *dataPath) ledgerProblem() string {
	if d.books == nil {
		return ""
	}
	return api.Unready(d.books)
}
