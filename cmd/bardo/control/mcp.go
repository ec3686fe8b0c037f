package control

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/mcp"
)

// MCPPath is where the state of the MCP servers is on the control socket, and in Envoy's process: a list of mcp.State.
const MCPPath = "/mcp"

// mcpTime bounds how long the data path in Envoy's process may take to answer.
const mcpTime = 2 * time.Second

// ServeMCP answers requests of MCPPath. It waits for servers for a second.
func ServeMCP(states func(wait time.Duration) []mcp.State) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(states(time.Second)) }
}

// MCPChecks are the checks of MCP servers in /readyz?verbose. One that does not answer does not make the gateway unready. here is used if this process has the
// data path; it is not waited for, because a thread of clients may call it. there is used if Envoy's process has it.
func MCPChecks(isHere bool, here func(wait time.Duration) []mcp.State, isThere bool, there func(ctx context.Context, method, path string, body []byte, out any) error) (checks []api.ReadyDetail) {
	var states []mcp.State
	switch {
	case isHere:
		states = here(0)
	case isThere:
		ctx, cancel := context.WithTimeout(context.Background(), mcpTime)
		defer cancel()
		_ = there(ctx, http.MethodGet, MCPPath, nil, &states) // on an error the ledger's check reports it
	}
	for _, s := range states {
		checks = append(checks, api.ReadyDetail{Name: "mcp server " + s.Server, OK: s.OK, Detail: s.Detail})
	}
	return checks
}
