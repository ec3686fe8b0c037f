package config

import (
	"fmt"
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"
)

// MCP configures the gateway for MCP servers.
type MCP struct {
	Servers map[string]MCPServer `key:"servers" doc:"The servers, by the name that their tools have as a prefix: letters, digits, dashes and single underscores."`
}

// MCPServer is a server of the Model Context Protocol.
type MCPServer struct {
	URL     URL           `key:"url" doc:"Where the server takes messages (Streamable HTTP), called through Envoy. Required."`
	Token   Secret        `key:"token" doc:"The gateway's credential at the server."`
	Header  string        `key:"header" default:"Authorization" doc:"The header that carries the token; in Authorization, it is a bearer token."`
	Timeout time.Duration `key:"timeout" default:"60s" doc:"How long a server may send nothing during a call, at most 1h. A list may take 10s."`
	Keys    []string      `key:"keys" doc:"API keys that may use the server, by id or name; * stands for any text. Without it, all."`
	Tools   MCPTools      `key:"tools" doc:"Which of the server's tools are available."`
}

// MCPTools selects tools by name.
type MCPTools struct {
	Allow []string `key:"allow" doc:"Names of tools; * stands for any text. Without it, all; an empty list allows none."`
	Deny  []string `key:"deny" doc:"Names of tools that are not available, though allow names them."`
}

// Limits of MCP servers.
const (
	maxMCPServers = 64
	maxMCPTimeout = time.Hour
)

var (
	mcpName   = pattern(`^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$`) // nothing before the first __ in a tool's name
	fieldName = pattern("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$")
)

// reservedMCPHeaders are headers that belong to the protocol, or to HTTP.
var reservedMCPHeaders = regexp.MustCompile(`^(Mcp-.*|X-Bardo-.*|Accept|Connection|Content-.*|Host|Te|Trailer|Transfer-Encoding|Upgrade|User-Agent)$`)

func (d *decoder) checkMCP(m *MCP) {
	if len(m.Servers) > maxMCPServers {
		d.problem("mcp.servers", fmt.Sprintf("at most %d", maxMCPServers), "%d servers", len(m.Servers))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Servers)) {
		s, key := m.Servers[name], "mcp.servers."+name
		if !mcpName().MatchString(name) || len(name) > 32 {
			d.problem(key, "letters, digits, dashes and single underscores, at most 32", "%q cannot be a prefix of tools", name)
		}
		if s.URL == (URL{}) {
			d.problem(key+".url", "where the server is, such as https://mcp.example/mcp", missing)
		}
		if s.Timeout < time.Second || s.Timeout > maxMCPTimeout {
			d.problem(key+".timeout", "from 1s to 1h", "%s", s.Timeout)
		}
		if !fieldName().MatchString(s.Header) || reservedMCPHeaders.MatchString(textproto.CanonicalMIMEHeaderKey(s.Header)) {
			d.problem(key+".header", "the name of a header for credentials, such as X-Api-Key", "%q cannot carry one", s.Header)
		}
		if strings.ContainsFunc(s.Token.Reveal(), func(r rune) bool { return r < ' ' || r > '~' }) {
			d.problem(key+".token", "visible ASCII characters", "other characters cannot be in a header")
		}
		if s.Token.IsSet() && !s.URL.TLS() && s.URL.public() {
			d.warn(d.place(key+".url"), key+".url", "the token goes to %s without encryption", s.URL.Host)
		}
	}
}
