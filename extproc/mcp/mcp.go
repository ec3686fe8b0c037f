// Package mcp is a gateway for servers of the Model Context Protocol (B-09): clients see one server, /mcp, with the tools and prompts of all servers that
// they may use, each under SERVER__NAME, or one of them, /mcp/SERVER, unchanged. It serves the revisions of the protocol with a handshake (2025-03-26 to
// 2025-11-25) and those without (2026-07-28), to clients and from servers. It answers requests of an exchange that is already authenticated, and calls
// servers through Envoy's egress listener. It does not know the configuration, keys, or the rules for tools: see Rules.
package mcp

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// Path is the endpoint of all servers; Path + "/" and a name that of one of them.
const Path = "/mcp"

// ServerOf returns the name of the server whose own endpoint has a path; "" for that of all.
func ServerOf(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, Path), "/") }

// MaxMessage is the maximum size of a client's message, in bytes.
const MaxMessage = 4 << 20

// Server is an upstream MCP server.
type Server struct {
	Name     string // letters, digits, dashes and single underscores
	Key      string // differs for another address or credential: a session at the server belongs to one of each
	Cluster  string // of Envoy
	Host     string // with its port, for the Host header
	Path     string
	Token    secret.Text   // the gateway's credential; may be unset
	Header   string        // that carries Token; "Authorization" is sent as a bearer token
	Timeout  time.Duration // of a call, without any message from the server
	MaxCalls int           // at the same time, of all keys; 0 means no limit

	Keys  rule.Names // ids or names of API keys that may use the server; nil: all
	Allow rule.Names // tools; nil: all
	Deny  rule.Names // tools that are not available, even if Allow has them

	PrivateKeys bool // requests with private keys or seed phrases are sent
}

// serves reports whether a caller may use the server.
func (s *Server) serves(c *Caller) bool {
	return s.Keys == nil || c.Account != "" && s.Keys.Match(string(c.Account)) || c.Name != "" && s.Keys.Match(c.Name)
}

// Objection is why the operator does not make a tool of the server available; "" if he does.
func (s *Server) Objection(tool string) string {
	switch {
	case s.Deny.Match(tool):
		return "denied"
	case s.Allow != nil && !s.Allow.Match(tool):
		return "not_allowed"
	}
	return ""
}

// Rules are the operator's rules for the tools of one request's caller, which include those of the server itself. They are called from one goroutine.
type Rules interface {
	// Offers reports whether the caller may see a tool that the server has.
	Offers(s *Server, tool string) bool
	// Refuses returns why a call is not allowed; nil if it is. known: the server has said that it has the tool. schema returns the schema of the tool's
	// arguments, nil without one; ok is false if the server does not have the tool.
	Refuses(s *Server, tool string, known bool, args []byte, schema func() (raw []byte, ok bool)) *Refusal
	// Forbids returns why the parameters of a request may not be sent to a server, whatever it is for; nil if they may. tool is "" for requests other than calls.
	Forbids(ctx context.Context, s *Server, tool string, known bool, params []byte) *Refusal
}

// Refusal is why a call is not allowed.
type Refusal struct {
	Rule   string // its id
	Reason string // a word
}

// Caller is who sends a request, and what it may use.
type Caller struct {
	Request  string // the request's id
	Account  policy.Account
	Name     string // of its key
	Servers  []Server
	MaxCalls int // at the same time; 0 means no limit
	Rules    Rules
	Secret   string // of the egress listener
	Single   string // the server of the request's path; "" for all
}

// Meter counts requests to servers. Safe for concurrent use.
type Meter interface {
	// MCPRequest counts one request to a server, by its method and result, both words of this package.
	MCPRequest(server, method, result string, took time.Duration)
}

// Options of a gateway; all are required.
type Options struct {
	Client  *http.Client  // of Envoy's egress listener
	Secret  func() []byte // from which session ids are derived
	Meter   Meter
	Log     *slog.Logger
	Version string // of this program
}

// Limits of the sessions at servers. A session that is dropped is opened again when it is needed.
const (
	maxAccounts = 4096
	maxLinks    = 256 // per account
	maxEnded    = 16384
	maxEnding   = 256 // dropped sessions that are ended at their servers at the same time; more are left to the servers
)

// Gateway serves requests. Safe for concurrent use.
type Gateway struct {
	Options

	accounts  *lru.Cache[policy.Account, *links]
	ended     *lru.Cache[nonce, struct{}] // ended sessions
	flights   singleflight.Group          // openings of sessions at servers
	ending    atomic.Int64                // sessions that are being ended because they were dropped
	lastID    atomic.Uint64               // of requests to servers
	inFlight  sync.Map                    // flight → context.CancelCauseFunc
	ofKeys    slots[policy.Account]       // calls under way
	ofServers slots[string]               // by name
	failed    sync.Map                    // Server.Key → time.Time of the last list that the server did not answer
	tools     sync.Map                    // Server.Key → map[string]bool: the names of the tools that the server has listed last
	states    sync.Map                    // Server.Key → *known
}

// links are one account's sessions at servers.
type links = lru.Cache[linkKey, *link]

// New returns a gateway.
func New(o Options) *Gateway {
	g := &Gateway{Options: o}
	g.accounts, _ = lru.NewWithEvict(maxAccounts, func(_ policy.Account, l *links) { l.Purge() }) // fails for sizes below 1 only
	g.ended, _ = lru.New[nonce, struct{}](maxEnded)
	return g
}

// linksOf returns an account's sessions at servers.
func (g *Gateway) linksOf(a policy.Account) *links {
	if l, ok := g.accounts.Get(a); ok {
		return l
	}
	l, _ := lru.NewWithEvict(maxLinks, g.dropped)
	if before, ok, _ := g.accounts.PeekOrAdd(a, l); ok {
		return before
	}
	return l
}

// Keep forgets what is known about servers that are not among those of a new configuration, by their keys.
func (g *Gateway) Keep(servers []Server) {
	for _, known := range []*sync.Map{&g.failed, &g.tools, &g.states} {
		for key := range known.Range {
			if !slices.ContainsFunc(servers, func(s Server) bool { return s.Key == key }) {
				known.Delete(key)
			}
		}
	}
}

// flight identifies a request in flight, for its cancellation.
type flight struct {
	account policy.Account
	session nonce
	id      string
}

// errCancelled is the cause of a request that its client has cancelled.
var errCancelled = context.Canceled
