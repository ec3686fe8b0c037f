package mcp

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/internal/jsonx"
)

// The revisions of the protocol. Those before modern begin with a handshake (initialize) and may have sessions; modern has neither, and each request names its
// revision.
const modern = "2026-07-28"

// legacy are the revisions with a handshake, latest first.
var legacy = []string{"2025-11-25", "2025-06-18", "2025-03-26"}

// headers of the protocol.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
)

// maxSession limits the session ids of servers, in bytes.
const maxSession = 1024

// openTime limits how long a session at a server may take to open.
const openTime = 10 * time.Second

// linkKey identifies a session at a server: of one session of a client, or of all requests of its account that are of none.
type linkKey struct {
	server  string
	session nonce
}

// link is a session at a server. Immutable, except for what is of an atomic type.
type link struct {
	server *Server
	opener Caller // only with what a request needs

	version      string
	session      string   // "" for none
	capabilities []string // those that the gateway has itself
	instructions string
	tools        atomic.Pointer[schemas]
	calls        atomic.Int64 // under way
	over         atomic.Bool  // there is nothing to end at the server
}

// modern reports whether the server needs no handshake.
func (l *link) modern() bool { return l.version == modern }

// can reports whether the server has a capability, such as "prompts".
func (l *link) can(capability string) bool {
	return slices.Contains(l.capabilities, capability)
}

// call is a caller's use of one server.
type call struct {
	*Gateway

	caller  *Caller
	server  *Server
	session nonce
}

// link returns the session at the server, and opens it if there is none. Requests at the same time share one opening, which outlives a caller that does not
// wait for it.
func (k *call) link(ctx context.Context) (*link, error) {
	key := linkKey{k.server.Key, k.session}
	all := k.linksOf(k.caller.Account)
	if l, ok := all.Get(key); ok {
		return l, nil
	}
	flight := string(k.caller.Account) + "\x00" + key.server + "\x00" + hex.EncodeToString(key.session[:])
	opening := k.flights.DoChan(flight, func() (any, error) {
		if l, ok := all.Get(key); ok {
			return l, nil
		}
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTime)
		defer cancel()
		var l *link
		err := guard.Err(func() (err error) { // a panic here would end the process
			l, err = k.open(own)
			return err
		})()
		if err == nil {
			all.Add(key, l)
		}
		return l, err
	})
	select {
	case <-ctx.Done():
		return nil, failureOf(ctx, unreachable)
	case done := <-opening:
		if done.Err != nil {
			return nil, done.Err
		}
		return done.Val.(*link), nil //nolint:forcetypeassert // see above
	}
}

// forget drops a session that the server does not know any more.
func (k *call) forget(l *link) {
	all, key := k.linksOf(k.caller.Account), linkKey{k.server.Key, k.session}
	if now, ok := all.Peek(key); ok && now == l {
		l.over.Store(true)
		all.Remove(key)
	}
}

// clientInfo is how the gateway introduces itself to servers.
func (k *call) clientInfo() []byte {
	return append(jsonx.AppendString([]byte(`{"name":"bardo","version":`), k.Version), '}')
}

// open opens a session by the handshake, or, at a server that refuses it, finds out whether the server needs none. The gateway has no capabilities of a client:
// servers cannot ask it for anything.
func (k *call) open(ctx context.Context) (*link, error) {
	params := append([]byte(`{"protocolVersion":"`+legacy[0]+`","capabilities":{},"clientInfo":`), k.clientInfo()...)
	l := k.newLink("")
	err := k.handshake(ctx, l, append(params, '}'))
	if f, ok := errors.AsType[failure](err); ok && (f == errServer || f.status/100 == 4) {
		return k.discover(ctx)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (k *call) newLink(version string) *link {
	return &link{server: k.server, opener: Caller{Request: k.caller.Request, Secret: k.caller.Secret}, version: version}
}

// handshake begins a session.
func (k *call) handshake(ctx context.Context, l *link, params []byte) error {
	a, err := k.send(ctx, l, request{method: "initialize", params: params})
	if err != nil {
		return err
	}
	defer a.close()
	r, err := a.response(ctx)
	switch {
	case err != nil:
		return err
	case r.error.Exists():
		return errServer
	}
	l.version, _ = r.result.Get("protocolVersion").Str()
	if !slices.Contains(legacy, l.version) {
		return failure{why: badVersion}
	}
	if l.session = a.http.Header.Get(headerSession); !isVisible(l.session) || len(l.session) > maxSession {
		return failure{why: badAnswer}
	}
	l.describe(r.result)
	note, err := k.send(ctx, l, request{method: "notifications/initialized", note: true})
	if err == nil {
		note.close()
	}
	return err
}

// discover returns the session, which needs no opening, at a server without a handshake.
func (k *call) discover(ctx context.Context) (*link, error) {
	l := k.newLink(modern)
	a, err := k.send(ctx, l, request{method: "server/discover"})
	if err != nil {
		return nil, err
	}
	defer a.close()
	r, err := a.response(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(slices.Collect(elements(r.result.Get("supportedVersions"))), func(v jsonx.Value) bool { return v.Equal(modern) }) {
		return nil, failure{why: badVersion}
	}
	l.describe(r.result)
	return l, nil
}

// maxInstructions limits the instructions of a server, in bytes.
const maxInstructions = 64 << 10

// describe keeps what a server says about itself.
func (l *link) describe(result jsonx.Value) {
	all := result.Get("capabilities")
	for _, name := range capabilities {
		if all.Get(name).Kind() == jsonx.Object {
			l.capabilities = append(l.capabilities, name)
		}
	}
	if text, ok := result.Get("instructions").Str(); ok && len(text) <= maxInstructions {
		l.instructions = text
	}
}

// isVisible reports whether a text has only visible ASCII characters.
func isVisible(s string) bool {
	for _, c := range []byte(s) {
		if c < 0x21 || c > 0x7e {
			return false
		}
	}
	return true
}

// endLinks ends a client's session at all servers.
func (g *Gateway) endLinks(ctx context.Context, c *Caller, n nonce) {
	all := g.linksOf(c.Account)
	for i := range c.Servers {
		k := call{g, c, &c.Servers[i], n}
		key := linkKey{k.server.Key, n}
		l, ok := all.Peek(key)
		if !ok {
			continue
		}
		l.over.Store(true)
		all.Remove(key)
		if l.session != "" {
			k.end(ctx, l)
		}
	}
}

// dropped ends a session that made room for others at its server, without waiting for it; not one that calls use.
func (g *Gateway) dropped(_ linkKey, l *link) {
	if l.session == "" || l.over.Load() || l.calls.Load() > 0 {
		return
	}
	if g.ending.Add(1) > maxEnding {
		g.ending.Add(-1)
		return
	}
	guard.Go(func() {
		defer g.ending.Add(-1)
		(&call{Gateway: g, caller: &l.opener, server: l.server}).end(context.Background(), l)
	})
}

// endTime limits how long a server may take to end a session.
const endTime = 2 * time.Second

// end asks the server to end a session. Whether it does is its own affair.
func (k *call) end(ctx context.Context, l *link) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if req, err := k.newRequest(ctx, http.MethodDelete, l, nil); err == nil {
		if resp, err := k.Client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
}
