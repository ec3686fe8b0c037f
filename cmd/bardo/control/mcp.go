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

// MCPSource returns the state of the MCP servers. nil: this process knows of none.
type MCPSource func() []mcp.State

// LocalMCP is the source of a process with the data path. It does not wait for servers, because a thread of clients may call it.
func LocalMCP(states func(wait time.Duration) []mcp.State) MCPSource {
	return func() []mcp.State { return states(0) }
}

// RemoteMCP is the source of the program whose Envoy has the data path. call sends a request there and decodes the answer into out.
func RemoteMCP(call func(ctx context.Context, method, path string, body []byte, out any) error) MCPSource {
	return func() (states []mcp.State) {
		ctx, cancel := context.WithTimeout(context.Background(), mcpTime)
		defer cancel()
		_ = call(ctx, http.MethodGet, MCPPath, nil, &states) // on an error the ledger's check reports it
		return states
	}
}

// MCPChecks are the checks of MCP servers in /readyz?verbose. One that does not answer does not make the gateway unready.
func MCPChecks(source MCPSource) (checks []api.ReadyDetail) {
	if source == nil {
		return nil
	}
	for _, s := range source() {
		checks = append(checks, api.ReadyDetail{Name: "mcp server " + s.Server, OK: s.OK, Detail: s.Detail})
	}
	return checks
}
