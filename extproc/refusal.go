package extproc

import (
	"context"
	"errors"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Answers that the operator's rules or services refuse (the layers firewall and guardrail), and how a request says what they decided.

// refusal is the fault by which a layer refused the answer; nil if none did.
func (a *answer) refusal() *fault.Fault { return byRules(a.broken) }

// refusalOf is the fault by which a layer refused an answer; nil for any other failure. Another candidate is not called for it.
func refusalOf(f *upstream.Failure) *fault.Fault {
	if f == nil || f.Kind != upstream.NotEncoded {
		return nil
	}
	return byRules(f.Cause)
}

func byRules(err error) *fault.Fault {
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind.ByRules() {
		return f
	}
	return nil
}

// settleRefusal bills a refused answer: the model did its work.
func (x *exchange) settleRefusal(ctx context.Context, a *answer, f *fault.Fault) (*summary, error) {
	x.current, x.trace.Fault, x.upstream = a, f, f
	return x.settle(context.WithoutCancel(ctx), a, record.Refused)
}

// refuseAnswer ends a request whose answer a layer refused.
func (s *drivenStream) refuseAnswer(ctx context.Context, a *answer, f *fault.Fault) error {
	x := s.x
	sum, err := x.settleRefusal(ctx, a, f)
	if err != nil {
		return s.fail(fault.From(err))
	}
	if s.begun {
		return s.fail(f)
	}
	x.refused(f)
	r := x.errorReply(f)
	r.Header = sum.headers(r.Header)
	return s.client.Reply(r)
}

// refuseAnswer ends a request whose answer a layer refused. Nothing was sent before.
func (n *nativeAnswer) refuseAnswer(ctx context.Context, a *answer, f *fault.Fault) error {
	x := n.x
	sum, err := x.settleRefusal(ctx, a, f)
	if err != nil {
		return n.refuse(fault.From(err))
	}
	x.refused(f)
	r := x.errorReply(f)
	r.Header = sum.headers(r.Header)
	return n.client.Reply(r)
}

// The headers with what the rules decided, and the members of a stream's last comment.
const (
	headerFirewall   = "x-bardo-firewall"
	headerGuardrails = "x-bardo-guardrails"
)

// ruleHeaders append what the operator's rules decided about the request, as far as it is known.
func (x *exchange) ruleHeaders(h header.List) header.List {
	for _, r := range [...]struct{ name, by string }{{headerFirewall, policy.ByFirewall}, {headerGuardrails, policy.ByGuardrail}} {
		if word := policy.Summary(x.Tags, r.by); word != "" {
			h = append(h, header.Field{Name: r.name, Value: word})
		}
	}
	return h
}

// eventDecision is the event of a decision by the operator's rules other than that something may pass.
const eventDecision = "policy:decision"

type decisionMade struct {
	RequestID string `json:"request_id"`
	Subsystem string `json:"subsystem,omitempty"`
	GolemID   string `json:"golem_id,omitempty"`
	policy.Tag
}

// tellDecisions reports what the rules decided, when the request is over.
func (x *exchange) tellDecisions() {
	for i := range x.Tags {
		t := &x.Tags[i]
		x.gw.Metrics.RuleDecided(t.By, t.Rule, t.Decision, t.Reason, t.Shadow)
		if t.Decision != policy.DecisionAllowed && x.gw.Events.On() {
			x.gw.Events.Emit(eventDecision, x.Principal.Account, decisionMade{x.ID, x.Hints.Subsystem, x.Hints.GolemID, *t})
		}
	}
}
