package mcp

import (
	"encoding/json"
	"net/url"
	"strings"
)

// MetadataPath is where the metadata of the endpoints is (RFC 9728); the path of one endpoint follows.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Endpoint returns the path of the endpoint whose metadata is at a path.
func Endpoint(metadataPath string) string { return strings.TrimPrefix(metadataPath, MetadataPath) }

// Authorization describes the gateway as a protected resource of OAuth.
type Authorization struct {
	Base   string // of the gateway's address, without a path: https://gateway.example
	Issuer string
	Scopes []string
}

// Resources are the identifiers of an endpoint, which tokens for it name as their audience: its own, and that of all servers.
func (a *Authorization) Resources(path string) []string {
	return []string{a.Base + path, a.Base + Path}
}

// Metadata is the document about an endpoint.
func (a *Authorization) Metadata(path string) ([]byte, error) {
	return json.Marshal(struct {
		Resource string   `json:"resource"`
		Issuers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
	}{a.Base + path, []string{a.Issuer}, a.Scopes, []string{"header"}, "Bardo MCP gateway"})
}

// Challenge is the WWW-Authenticate header of a refused request to an endpoint (RFC 6750, RFC 9728). code is an error of OAuth; "" for a request without a
// token.
func (a *Authorization) Challenge(path, code string) string {
	where := url.URL{Path: MetadataPath + path}
	b := `Bearer resource_metadata="` + a.Base + where.EscapedPath() + `"`
	if len(a.Scopes) > 0 {
		b += `, scope="` + strings.Join(a.Scopes, " ") + `"`
	}
	if code != "" {
		b += `, error="` + code + `"`
	}
	return b
}
