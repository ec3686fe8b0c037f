package extproc

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/site"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/oauth"
)

// mcp answers a message to MCP servers. It costs nothing.
func (x *exchange) mcp(ctx context.Context, bodyless bool) (err error) {
	c := mcp.Caller{
		Request: x.ID, Account: x.Principal.Account, Name: x.Principal.Name, Servers: x.Config.MCP, Secret: x.Config.EgressSecret,
		Single: strings.TrimPrefix(strings.TrimPrefix(x.Head.Path, mcp.Path), "/"),
	}
	if err := x.mayUseMCP(); err != nil {
		return err
	}
	if !c.Has() {
		return fault.Newf(fault.NotFound, "there is no MCP server of this name for this key: /mcp has those that it may use")
	}
	if x.HeaderHints, err = hint.FromHeaders(x.Head.Header, &x.Hints); err != nil {
		return err
	}
	if err := x.funds.CheckSubsystem(); err != nil {
		return err
	}
	var body []byte
	if x.Head.Method == http.MethodPost {
		if body, err = x.readBodyUpTo(bodyless, mcp.MaxMessage); err != nil {
			return err
		}
	}
	judged := pipeline.Exchange{ID: x.ID, Principal: x.Principal, Hints: x.Hints, Request: &chat.Request{}}
	c.Rules = toolRules{x.Config.Firewall, &judged}
	end := &record.End{Outcome: record.OK}
	x.trace.Unbilled = end
	end.Status, err = site.Serve(ctx, x.client, &x.Head, body, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, f := range x.report.IDHeaders() {
			w.Header().Set(f.Name, f.Value)
		}
		x.gw.mcp.Serve(w, r, &c)
	}))
	x.Tags = judged.Tags
	for _, t := range x.Tags {
		if t.Stage == policy.StageCall {
			record.EventToolCall.Emit(x.gw.Events, x.Principal.Account, record.DecisionMade{RequestID: x.ID, Subsystem: x.Hints.Subsystem, GolemID: x.Hints.GolemID, Tag: t})
		}
	}
	return err
}

// mayUseMCP refuses callers that may not call tools, and web pages that may not call this gateway.
func (x *exchange) mayUseMCP() error {
	switch {
	case len(x.Config.MCP) == 0:
		return fault.Newf(fault.NotFound, "this gateway has no MCP servers (mcp.servers)")
	case x.Config.Firewall.Broken != nil:
		return x.Config.Firewall.Broken
	case x.Principal.Anonymous && x.Config.Keyless != runtime.KeylessAnyone:
		return x.challenged(auth.Missing(x.Head.Header))
	}
	if o := x.Head.Origin(); o.Origin != "" && !x.cors().Allows() {
		if why := x.Config.Known.Refuses(o); why != "" { // the protocol requires it, also of requests with a credential
			return fault.Newf(fault.KeyRestricted, "this request is not accepted: %s. Its operator can list the origin in listen.cors_origins", why)
		}
	}
	return auth.MayGenerate(x.Principal)
}

// challenged adds to an error of authentication at an MCP endpoint where its client can log in.
func (x *exchange) challenged(err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if x.Config.MCPAuth == nil || x.trace.Operation != telemetry.MCP || !ok {
		return err
	}
	code := "invalid_token"
	switch {
	case errors.Is(err, oauth.ErrScope):
		code = "insufficient_scope"
	case f.Kind != fault.InvalidAPIKey:
		return err
	case !auth.Sent(x.Head.Header):
		code = ""
	}
	return fault.New(f.Kind, f.Public, &meter.Challenge{Header: header.List{{Name: "www-authenticate", Value: x.Config.MCPAuth.Challenge(x.Head.Path, code)}}})
}

// mcpMetadata answers what clients need to know to log in (RFC 9728).
func (x *exchange) mcpMetadata() error {
	if x.Config.MCPAuth == nil {
		return fault.Newf(fault.NotFound, "clients of this gateway send keys: it has no authorization server (mcp.oauth)")
	}
	b, err := x.Config.MCPAuth.Metadata(strings.TrimPrefix(x.Head.Path, mcp.MetadataPath))
	if err != nil {
		return err
	}
	r := x.Head.JSON(b)
	r.Header = append(r.Header, x.report.IDHeaders()...)
	x.trace.Unbilled = &record.End{Status: r.Status, Outcome: record.OK}
	return x.client.Reply(r)
}

// toolRules are the rules for the tools of one request's caller: those of the server's configuration, and the firewall's.
type toolRules struct {
	firewall firewall.Layer
	x        *pipeline.Exchange
}

var _ mcp.Rules = toolRules{}

// Offers implements mcp.Rules.
func (t toolRules) Offers(s *mcp.Server, tool string) bool {
	d := firewall.Direct{Server: s.Name, Tool: tool, Known: true}
	if why := s.Objection(tool); why != "" {
		t.firewall.RecordDirect(t.x, &d, policy.StageTools, policy.DecisionRemoved, firewall.Objection{Rule: ruleOf(s), Reason: why})
		return false
	}
	return t.firewall.OffersDirect(t.x, &d)
}

// Refuses implements mcp.Rules.
func (t toolRules) Refuses(s *mcp.Server, tool string, known bool, args []byte, schema func() ([]byte, bool)) *mcp.Refusal {
	d := firewall.Direct{Server: s.Name, Tool: tool, Known: known}
	why := firewall.Objection{Rule: ruleOf(s), Reason: s.Objection(tool)}
	if why.Reason != "" {
		t.firewall.RecordDirect(t.x, &d, policy.StageCall, policy.DecisionRefused, why)
	} else if why = t.firewall.JudgeDirect(t.x, &d, args, schema); why == (firewall.Objection{}) {
		return nil
	}
	return &mcp.Refusal{Rule: why.Rule, Reason: why.Reason}
}

// ruleOf is the name in records of the rule that a server's configuration is.
func ruleOf(s *mcp.Server) string { return "mcp.servers." + s.Name }
