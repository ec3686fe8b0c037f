package toolaccess

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/mcp"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/policy"
)

// Rules are the rules for the tools of one request's caller: those of the servers' configuration, and the firewall's. Not safe for concurrent use.
type Rules struct {
	firewall firewall.Layer
	x        pipeline.Exchange
}

var _ mcp.Rules = (*Rules)(nil)

// RulesFor returns the rules for a request.
func RulesFor(v *request.View) *Rules {
	return &Rules{v.Config.Firewall, pipeline.Exchange{ID: v.ID, Principal: v.Principal, Hints: v.Hints, Request: &chat.Request{}}}
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

// ruleOf is the name in records of the rule that a server's configuration is.
func ruleOf(s *mcp.Server) string { return "mcp.servers." + s.Name }
