package config

import (
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// MCP configures the gateway for MCP servers.
type MCP struct {
	Servers       map[string]MCPServer `key:"servers" doc:"The servers, by the name that their tools have as a prefix: letters, digits, dashes and single underscores."`
	MaxConcurrent int                  `key:"max_concurrent" default:"64" min:"0" doc:"Concurrent calls of one key at all servers; 0 means no limit. Beyond it, a call is answered with 429."`
	OAuth         *MCPOAuth            `key:"oauth" doc:"Access tokens in place of keys, at /mcp only. It needs listen.public_url."`
}

// MCPOAuth configures access tokens of an OAuth authorization server in place of keys.
type MCPOAuth struct {
	Issuer  string        `key:"issuer" doc:"The authorization server, as its tokens name it, such as https://login.example. Clients find it by the metadata of /mcp. Required."`
	JWKS    URL           `key:"jwks_url" doc:"Where the server's public keys are, fetched through Envoy. Required."`
	Refresh time.Duration `key:"refresh" default:"1h" doc:"Age at which the keys are fetched again. A token with a key id that is not among them has them fetched again at most once a minute."`
	Scopes  []string      `key:"scopes" doc:"Scopes that a token must have."`
	Callers []MCPCaller   `key:"callers" doc:"Whose tokens are taken, and for which key of this gateway; the first that matches decides. Required."`
}

// MCPCaller maps tokens to a key.
type MCPCaller struct {
	Claim  string   `key:"claim" default:"sub" doc:"The claim of the token: a text, or a list of texts."`
	Values []string `key:"values" doc:"Values of which the claim has one; * stands for any text. Required."`
	Key    string   `key:"key" doc:"The id of the API key as which such a caller is served: its limits and rules apply. Required."`
}

// MCPServer is a server of the Model Context Protocol.
type MCPServer struct {
	URL           URL           `key:"url" doc:"Where the server takes messages (Streamable HTTP), called through Envoy. Required."`
	Token         Secret        `key:"token" doc:"The gateway's credential at the server."`
	Header        string        `key:"header" default:"Authorization" doc:"The header that carries the token; in Authorization, it is a bearer token."`
	Timeout       time.Duration `key:"timeout" default:"60s" doc:"How long a server may send nothing during a call, at most 1h. A list may take 10s."`
	MaxConcurrent int           `key:"max_concurrent" default:"256" min:"0" doc:"Concurrent calls of all keys at the server; 0 means no limit."`
	Keys          []string      `key:"keys" doc:"API keys that may use the server, by id or name; * stands for any text. Without it, all."`
	Tools         MCPTools      `key:"tools" doc:"Which of the server's tools are available."`
	PrivateKeys   bool          `key:"allow_private_keys" doc:"Requests with a private key or a seed phrase are sent to the server. Otherwise they are refused, unless pipeline.pii.policy is off."`
}

// MCPTools selects tools by name.
type MCPTools struct {
	Allow []string `key:"allow" doc:"Names of tools; * stands for any text. Without it, all; an empty list allows none."`
	Deny  []string `key:"deny" doc:"Names of tools that are not available, though allow names them."`
}

var scopeToken = pattern(`^[!#-\[\]-~]{1,128}$`) // RFC 6749, 3.3

func (d *decoder) checkMCPOAuth(cfg *Config, o *MCPOAuth) {
	const key = "mcp.oauth."
	if cfg.Listen.PublicURL == (URL{}) || cfg.Listen.PublicURL.Path != "" {
		d.problem("listen.public_url", "the gateway's address without a path, such as https://gateway.example", "tokens for mcp.oauth name it as their audience")
	}
	if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" {
		d.problem(key+"issuer", "the address of an authorization server, such as https://login.example", "%q", o.Issuer)
	}
	if o.JWKS == (URL{}) {
		d.problem(key+"jwks_url", "where the server's keys are, such as https://login.example/jwks.json", missing)
	} else if !o.JWKS.TLS() && o.JWKS.Public() {
		d.problem(key+"jwks_url", "an address that begins with https://", "whoever is between here and %s could replace the keys that tokens are verified with", o.JWKS.Host)
	}
	if o.Refresh < time.Minute || o.Refresh > 24*time.Hour {
		d.problem(key+"refresh", "from 1m to 24h", "%s", o.Refresh)
	}
	for i, s := range o.Scopes {
		if !scopeToken().MatchString(s) {
			d.problem(fmt.Sprintf("%sscopes[%d]", key, i), "a scope of OAuth", "%q", s)
		}
	}
	if len(o.Callers) == 0 {
		d.problem(key+"callers", "at least one", missing)
	}
	for i, c := range o.Callers {
		if len(c.Values) == 0 || c.Key == "" || c.Claim == "" {
			d.problem(fmt.Sprintf("%scallers[%d]", key, i), "claim, values and key", missing)
		}
	}
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

func (d *decoder) checkMCP(cfg *Config) {
	m := &cfg.MCP
	if m.OAuth != nil {
		d.checkMCPOAuth(cfg, m.OAuth)
	}
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
		if s.Token.IsSet() && !s.URL.TLS() && s.URL.Public() {
			d.warn(d.place(key+".url"), key+".url", "the token goes to %s without encryption", s.URL.Host)
		}
	}
}
