package doctor

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/internal/config"
)

// How long and how often the running gateway is asked about MCP servers that it is just asking itself.
const (
	mcpAsks  = 12
	mcpPause = time.Second
)

// checkMCP checks whether MCP servers answer the running gateway, if there is one.
func checkMCP(ctx context.Context, h home.Dir, cfg *config.Config) (found []Finding) {
	if len(cfg.MCP.Servers) == 0 {
		return nil
	}
	states := map[string]mcp.State{}
	for range mcpAsks {
		var all []mcp.State
		_ = control.Do(ctx, h, http.MethodGet, control.MCPPath, &all) // fails if no gateway runs: their state is unknown then
		asking := false
		for _, s := range all {
			states[s.Server] = s
			asking = asking || s.Detail == mcp.Asking
		}
		if !asking {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(mcpPause):
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.MCP.Servers)) {
		s := cfg.MCP.Servers[name]
		found = append(found, checkMCPServer(name, &s, states[name]))
	}
	return found
}

// checkMCPServer checks one server; state is zero if no gateway runs that has it.
func checkMCPServer(name string, s *config.MCPServer, state mcp.State) Finding {
	check, key := "mcp server "+name, "mcp.servers."+name
	switch {
	case state.Server == "":
		return pass(check, "%s, %s", s.URL, control.NotRunning)
	case !state.OK:
		return fail(check, "start it, or correct "+key+".url and "+key+".token", "%s: %s", s.URL, state.Detail)
	case state.Detail != "":
		return pass(check, "%s, %s", s.URL, state.Detail)
	}
	return pass(check, "%s answers", s.URL)
}
