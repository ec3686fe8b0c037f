package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/internal/config"
)

// MCPServers are the configured MCP servers, by name.
func MCPServers(cfg *config.MCP) []mcp.Server {
	out := make([]mcp.Server, 0, len(cfg.Servers))
	for _, name := range slices.Sorted(maps.Keys(cfg.Servers)) {
		c := cfg.Servers[name]
		sum := sha256.Sum256([]byte(c.URL.String() + "\n" + c.Header + "\n" + c.Token.Reveal()))
		s := mcp.Server{
			Name: name, Key: name + "." + hex.EncodeToString(sum[:8]), Cluster: string(hookCluster("mcp", name, &c.URL)), Host: c.URL.Host, Path: c.URL.Path,
			Token: c.Token, Header: c.Header, Timeout: c.Timeout, MaxCalls: c.MaxConcurrent, Keys: c.Keys, Allow: c.Tools.Allow, Deny: c.Tools.Deny,
			PrivateKeys: c.PrivateKeys,
		}
		if s.Path == "" {
			s.Path = "/"
		}
		out = append(out, s)
	}
	return out
}

// MCPAuthorization describes the gateway to MCP clients that log in; nil if they cannot.
func MCPAuthorization(cfg *config.Config) *mcp.Authorization {
	o := cfg.MCP.OAuth
	if o == nil {
		return nil
	}
	return &mcp.Authorization{Base: cfg.Listen.PublicURL.String(), Issuer: o.Issuer, Scopes: o.Scopes}
}
