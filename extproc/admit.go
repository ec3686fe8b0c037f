package extproc

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/dryrun"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/follow"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/replay"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/toolaccess"
	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/quota"
)

// authRequest returns the request in the form that verifiers read.
func (x *exchange) authRequest() auth.Request {
	r := auth.Request{Header: x.Head.Header, Client: x.Head.Peer, Method: x.Head.Method, Path: x.Head.Path, Read: &x.keyRead}
	if x.Head.Query != "" && x.Head.Header.Has(identity.HeaderDelegation) { // a body digest is only needed for delegations in the query
		r.Path += "?" + x.Head.Query
	}
	return r
}

// reader returns the caller as the reader of a stream of events.
func (x *exchange) reader() *follow.Reader {
	return &follow.Reader{View: &x.View, Tokens: x.gw.api.Tokens, Keys: x.gw.Ledger, Verifier: x.gw.Verifier, Request: x.authRequest()}
}

// authenticate finds the caller. A credential that is present is checked, even where none is required.
func (x *exchange) authenticate(ctx context.Context) (policy.Principal, error) {
	if p, ok, err := x.reader().ByToken(ctx); err != nil || ok {
		return p, err
	}
	if x.gw.MCPTokens != nil && x.Config.MCPAuth != nil && x.trace.Operation == telemetry.MCP {
		p, ok, err := x.gw.MCPTokens.Verify(ctx, x.authRequest(), x.Config.MCPAuth.Resources(x.Head.Path)...)
		if ok || err != nil {
			return p, err
		}
	}
	p, ok, err := x.gw.Verifier.Verify(ctx, x.authRequest())
	if ok && err == nil || err != nil && !follow.AcceptsAnyToken(&x.View) {
		return p, err
	}
	if x.Config.Keyless == runtime.KeylessNobody || !x.Head.Peer.IsLoopback() {
		return policy.Principal{}, auth.Missing(x.Head.Header)
	}
	if why := x.Config.Known.Refuses(x.Head.Origin()); why != "" {
		return policy.Principal{}, fault.Newf(fault.InvalidAPIKey, "a request without an API key is taken from programs on this machine alone, and %s: "+
			"send a key, or name the gateway localhost, 127.0.0.1 or as in listen.public_url", why)
	}
	return policy.Principal{Anonymous: true}, nil
}

// limit checks the key's permissions, its rate and concurrency limits, and limits that are already exhausted. funds.Allot checks the limits that
// depend on the body.
func (x *exchange) limit(ctx context.Context, e *endpoint.Endpoint) (err error) {
	if e.Class == endpoint.Generate {
		if err := auth.MayGenerate(x.Principal); err != nil {
			return err
		}
	}
	if e.Local == nil && !e.Stored && !e.MCP {
		if x.dryRun, err = dryrun.IsRequested(x.Head.Header); err != nil {
			return err
		}
	}
	ask := quota.Request{Client: x.Head.Peer, Class: x.limitClass(e), MayBeFree: e.Stored || x.MayBeFree()}
	x.funds.MarkCritical(x.Head.Header.Get("x-bardo-subsystem"))
	if err := x.bill.Admit(ctx, &ask); err != nil {
		return x.funds.Blocked(err)
	}
	if ask.Class == quota.Lookup || ask.MayBeFree || !x.Principal.Prepaid {
		return nil
	}
	return x.funds.Blocked(x.bill.Payer().Admit(ctx))
}

// limitClass returns the request's rate limit class: explained requests, and those that generate nothing, are lookups.
func (x *exchange) limitClass(e *endpoint.Endpoint) quota.Class {
	if e.Class != endpoint.Generate || e.Method != http.MethodPost || x.dryRun {
		return quota.Lookup
	}
	return quota.Generation
}

// parseHeaders reads hints and options from the headers. Errors there are returned before the body is read.
func (x *exchange) parseHeaders() (err error) {
	if x.fast, err = replay.ParseFast(x.Head.Header.Get(replay.Header)); err != nil {
		return err
	}
	if err := x.parseReasoning(); err != nil {
		return err
	}
	if err := x.ParseOwnKey(); err != nil {
		return err
	}
	if err := x.parseDefer(); err != nil {
		return err
	}
	x.HeaderHints, err = hint.FromHeaders(x.Head.Header, &x.Hints)
	return err
}

// headerReasoning asks for the reasoning chain beside the answer.
const headerReasoning = "x-bardo-reasoning"

// parseReasoning parses how much of an answer's reasoning is requested.
func (x *exchange) parseReasoning() error {
	switch mode := x.Head.Header.Get(headerReasoning); mode {
	case "", "default":
	case "full":
		x.report.FullChain = true
	default:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Reasoning: %q, expected full or default", fault.Clip(mode))
	}
	return nil
}

// readBody reads the body of a request that needs one. The error is a fault.
func (x *exchange) readBody(bodyless bool) ([]byte, error) {
	body, err := x.readBodyUpTo(bodyless, x.Config.MaxBody)
	if err == nil {
		x.gw.served.Add(1)
	}
	return body, err
}

// readBodyUpTo is readBody with a maximum size in bytes.
func (x *exchange) readBodyUpTo(bodyless bool, maxBytes int64) ([]byte, error) {
	if bodyless {
		return nil, fault.Newf(fault.InvalidRequest, "the request has no body")
	}
	if enc := x.Head.Header.Get("content-encoding"); enc != "" && enc != "identity" {
		return nil, fault.Newf(fault.UnsupportedMedia, "content-encoding %q is not supported: send the body uncompressed", enc)
	}
	return x.receive(maxBytes)
}

// read reads the request's body and decodes it in one pass.
func (x *exchange) read(e endpoint.Endpoint, bodyless bool) error {
	body, err := x.readBody(bodyless)
	if err != nil {
		return err
	}
	if x.deferral.by > 0 {
		x.deferral.body = bytes.Clone(body)
	}
	if e.Detect != nil && x.Dialect.Name() != chat.Anthropic { // a client that sends Anthropic's header keeps its own format
		x.Dialect = x.Config.Dialects[e.Detect(body)]
	}
	if d, ok := x.Dialect.(wire.Addressed); ok {
		x.Dialect = d.ForPath(x.Head.Path, x.Head.Query)
	}
	if x.Request, err = x.Dialect.Decode(e.Op, x.Head.Header, x.Head.Query, body); err != nil {
		return err
	}
	return x.ParseBodyHints()
}

// receive reads the request's body of at most maxBytes, which stays valid until the exchange is closed.
func (x *exchange) receive(maxBytes int64) ([]byte, error) {
	t := &x.Config.Timeouts
	x.body = upload.Body{
		Memory: &x.gw.bodies, TimeoutReply: x.uploadTimeout,
		Limits: upload.Limits{Body: min(maxBytes, x.Config.MaxBody), Bodies: x.Config.MaxBodies, Idle: t.UploadIdle, Total: t.UploadTotal},
	}
	body, err := x.body.Receive(x.client, &x.Head)
	if err != nil {
		return nil, err
	}
	x.Arrived = time.Now()
	return body, identity.BodyFault(&x.Principal, body)
}

// uploadTimeout answers a client whose body is too slow.
func (x *exchange) uploadTimeout(f *fault.Fault, send func(stream.Reply) error) {
	defer x.recoverPanic()
	r := x.report.Error(f)
	r.Header = x.cors().AddHeaders(r.Header)
	_ = send(r) // a client that disconnected needs no answer
}

// identify authenticates the caller and determines the payer.
func (x *exchange) identify(ctx context.Context) error {
	p, err := x.authenticate(ctx)
	if err != nil && x.trace.Operation == telemetry.MCP {
		return toolaccess.Challenged(&x.View, err)
	}
	if err != nil {
		return err
	}
	p.ReputationSpread = x.gw.Identities.Spread(p.Account)
	x.Principal = p
	x.bill.PaidBy(p, x.gw.meter.PayerOf(&p), x.Config.Spread(&p))
	return nil
}

// staysOnThread reports whether the request can be served on the worker's thread: the endpoint allows it, and authentication does not block.
func (x *exchange) staysOnThread(e *endpoint.Endpoint) bool {
	if e.Local != nil || e.Stored || e.MCP || e.Metadata || e.Modality != nil || e.Class != endpoint.Generate {
		return false
	}
	v, ok := x.gw.Verifier.(auth.Immediate)
	return ok && v.Immediate(x.authRequest())
}
