package extproc

import (
	"context"
	"net/http"

	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/site"
	"bardo.money/gateway/extproc/toolaccess"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// mcp answers a message to MCP servers. It costs nothing.
func (x *exchange) mcp(ctx context.Context, bodyless bool) (err error) {
	c := mcp.Caller{
		Request: x.ID, Account: x.Principal.Account, Name: x.Principal.Name, Servers: x.Config.MCP, MaxCalls: x.Config.MCPCalls, Secret: x.Config.EgressSecret,
		Single: mcp.ServerOf(x.Head.Path),
	}
	if err := toolaccess.Check(&x.View); err != nil {
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
	rules := toolaccess.RulesFor(&x.View)
	c.Rules = rules
	end := &record.End{Outcome: record.OK}
	x.trace.Unbilled = end
	end.Status, err = site.Serve(ctx, x.client, &x.Head, body, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, f := range x.report.IDHeaders() {
			w.Header().Set(f.Name, f.Value)
		}
		x.gw.mcp.Serve(w, r, &c)
	}))
	x.Tags = rules.Decisions()
	for _, t := range x.Tags {
		if t.Stage == policy.StageCall {
			record.EventToolCall.Emit(x.gw.Events, x.Principal.Account, record.DecisionMade{RequestID: x.ID, Subsystem: x.Hints.Subsystem, GolemID: x.Hints.GolemID, Tag: t})
		}
	}
	return err
}

// mcpMetadata answers what clients of MCP servers need to log in.
func (x *exchange) mcpMetadata() error {
	b, err := toolaccess.Metadata(&x.View)
	if err != nil {
		return err
	}
	r := x.Head.JSON(b)
	r.Header = append(r.Header, x.report.IDHeaders()...)
	x.trace.Unbilled = &record.End{Status: r.Status, Outcome: record.OK}
	return x.client.Reply(r)
}
