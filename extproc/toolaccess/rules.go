package toolaccess

import (
	"context"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Rules are the rules for the tools of one request's caller: those of the servers' configuration, and the firewall's. Not safe for concurrent use.
type Rules struct {
	firewall firewall.Layer
	layers   *pipeline.Pipeline
	x        pipeline.Exchange
}

var _ mcp.Rules = (*Rules)(nil)

// RulesFor returns the rules for a request.
func RulesFor(v *request.View) *Rules {
	return &Rules{v.Config.Firewall, v.Config.Pipeline, pipeline.Exchange{ID: v.ID, Principal: v.Principal, Hints: v.Hints, Request: &chat.Request{}}}
}

// Decisions returns the decisions so far.
func (r *Rules) Decisions() []policy.Tag { return r.x.Tags }

// Offers implements mcp.Rules.
func (r *Rules) Offers(s *mcp.Server, tool string) bool {
	d := firewall.Direct{Server: s.Name, Tool: tool, Known: true}
	if why := s.Objection(tool); why != "" {
		r.firewall.RecordDirect(&r.x, &d, policy.StageTools, policy.DecisionRemoved, firewall.Objection{Rule: ruleOf(s), Reason: why})
		return false
	}
	return r.firewall.OffersDirect(&r.x, &d)
}

// Refuses implements mcp.Rules.
func (r *Rules) Refuses(s *mcp.Server, tool string, known bool, args []byte, schema func() ([]byte, bool)) *mcp.Refusal {
	d := firewall.Direct{Server: s.Name, Tool: tool, Known: known}
	why := firewall.Objection{Rule: ruleOf(s), Reason: s.Objection(tool)}
	if why.Reason != "" {
		r.firewall.RecordDirect(&r.x, &d, policy.StageCall, policy.DecisionRefused, why)
	} else if why = r.firewall.JudgeDirect(&r.x, &d, args, schema); why == (firewall.Objection{}) {
		return nil
	}
	return &mcp.Refusal{Rule: why.Rule, Reason: why.Reason}
}

// The rule and the reason in records of what must not leave this gateway.
const (
	ruleForbidden   = "pipeline.pii"
	reasonForbidden = "private_key"
	reasonUnread    = "unread"
)

// Forbids implements mcp.Rules: private keys and seed phrases are not sent, unless the policy for personal data is off, or the server is one for keys.
func (r *Rules) Forbids(ctx context.Context, s *mcp.Server, tool string, known bool, params []byte) *mcp.Refusal {
	if s.PrivateKeys || len(params) == 0 {
		return nil
	}
	why := mcp.Refusal{Rule: ruleForbidden, Reason: reasonForbidden}
	switch err := r.search(ctx, params); {
	case err == nil:
		return nil
	case fault.From(err).Kind != fault.SecretInPrompt:
		why.Reason = reasonUnread
	}
	if tool != "" {
		d := firewall.Direct{Server: s.Name, Tool: tool, Known: known}
		r.firewall.RecordDirect(&r.x, &d, policy.StageCall, policy.DecisionRefused, firewall.Objection{Rule: why.Rule, Reason: why.Reason})
	}
	return &why
}

// search searches the strings of parameters, and the parameters as a whole: the name of a member may say what its value is.
func (r *Rules) search(ctx context.Context, params []byte) error {
	v, err := jsonx.Parse(params)
	if err != nil {
		return err
	}
	texts := v.AppendStrings([]byte(`{"input":[`), nil)
	texts = append(jsonx.AppendString(texts, string(params)), "]}"...)
	doc, err := jsonx.Scan(texts)
	if err != nil {
		return err
	}
	x := r.x
	x.Request = &chat.Request{Dialect: chat.OpenAI, Op: chat.Modality, Choices: 1, Doc: doc}
	return r.layers.Forbids(ctx, &x)
}

// ruleOf is the name in records of the rule that a server's configuration is.
func ruleOf(s *mcp.Server) string { return "mcp.servers." + s.Name }
