package review

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// HeaderEscalated says that a better model answered than the one that was asked first.
const HeaderEscalated = "x-bardo-escalated"

// checkEscalate marks questions that may be answered by a better model than they ask for.
const checkEscalate = "escalate"

// The tiers of heartbeats.
const (
	tier1 = "heartbeat_t1"
	Tier2 = "heartbeat_t2"
)

// Escalation is how a request is asked at tier T2, should it come to that.
type Escalation struct {
	Candidates []policy.Resolution
	Request    *chat.Request // with the profile of that tier
	Reason     structured.Escalation
	From       policy.Resolution // whose answer was not given; no provider while that is open
}

// PlanEscalation finds out whether the request may be answered by tier T2, and how that is asked. What keeps a request from some
// providers keeps this one from them, too; what an agent's life does not allow, it does not get. It is a second call that the gateway
// makes by itself: no user's own key pays for it, nor does the operator's account where the first call was on a user's own key.
func (r *Review) PlanEscalation() {
	if r.Hints.Subsystem != tier1 || !r.mayEscalate() || r.Request.Op != chat.Generate || r.Verbatim() || r.Verifies() || r.SchemaName() == "" || !r.verifiable() || r.CallerPays(r.Found[0].Provider) {
		return
	}
	h := r.Hints
	h.Subsystem, h.Quality = Tier2, policy.QualityUnsaid // the class was said for the first tier
	f := hint.Facts(r.Request, int64(r.Request.MaxTokens))
	f.Model, f.Provider = "", ""
	if !r.Request.HasThinking() { // then the profile of tier T1 did
		f.Effort = policy.EffortUnsaid
	}
	built := r.Config.Needs(&h, &f, &r.Principal)
	if built.Quality <= r.Intent.Quality {
		return
	}
	built.Provider = r.pinnedProvider()
	d := r.Config.Resolver.Decide(&built.Intent)
	order := slices.DeleteFunc(d.Order, func(to policy.Resolution) bool {
		return r.CallerPays(to.Provider) || !r.mayCall(to.Provider) || r.Config.UnsupportedContent(r.Request, &to) != nil || !r.HasPrices(&to) ||
			resolve.Weaker(&r.Intent, &r.Found[0], &to) || to.Model == r.Found[0].Model
	})
	if len(order) == 0 {
		return
	}
	r.Escalation = &Escalation{Candidates: order, Request: r.tier2Request(&h, &built.Intent, &order[0])}
	r.Request.Check = checkEscalate
}

// mayEscalate reports whether the request says, or else the operator, that tier T2 may answer it.
func (r *Review) mayEscalate() bool {
	if r.Hints.Escalate != nil {
		return *r.Hints.Escalate
	}
	return r.Config.Escalation.On
}

// tier2Request is the client's request under the profile of tier T2.
func (r *Review) tier2Request(h *policy.Hints, in *policy.Intent, first *policy.Resolution) *chat.Request {
	req := *r.Request
	if !req.HasThinking() { // then the profile of tier T1 did
		req.Thinking, req.HighEffort = false, false
	}
	if r.Intent.Model == "" {
		req.Model = string(first.Model)
	}
	req.Profile = nil
	if d := r.Config.Profiles.Build(h, in, r.Started); d != nil {
		req.Profile = d.Profile
		for _, name := range d.Ignored {
			req.Dropped = wire.AppendDegraded(slices.Clip(req.Dropped), name)
		}
		if r.Schema != nil {
			req.Profile.Default.SchemaName = r.Request.Profile.Default.SchemaName
		}
		request.MarkThinking(&req)
	}
	return &req
}

// Escalates reports whether tier T2 may be asked.
func (r *Review) Escalates() bool { return r.Escalation != nil && len(r.Escalation.Candidates) > 0 }

// EscalatedStatus is what there is to say of the tier that answered; "" for the one that was asked.
func (r *Review) EscalatedStatus() string {
	if r.Escalation == nil || r.Escalation.From.Provider == "" {
		return ""
	}
	return tier1 + "->" + Tier2 + "; reason=" + string(r.Escalation.Reason)
}

// The event of an escalation.
const eventEscalated = "inference:escalated"

type escalatedEvent struct {
	RequestID    string            `json:"request_id"`
	From         string            `json:"from"`
	To           string            `json:"to"`
	Reason       string            `json:"reason"`
	Provider     policy.ProviderID `json:"provider"` // of the answer that is given
	Model        policy.ModelID    `json:"model"`
	FromProvider policy.ProviderID `json:"from_provider"`
	FromModel    policy.ModelID    `json:"from_model"`
}

// EmitEscalated emits the event of an escalation; to is the candidate whose answer is given.
func (r *Review) EmitEscalated(to *policy.Resolution) {
	if !r.Events.On() {
		return
	}
	e := r.Escalation
	r.Events.Emit(eventEscalated, r.Principal.Account, escalatedEvent{
		r.ID, tier1, Tier2, string(e.Reason), to.Provider, to.Model, e.From.Provider, e.From.Model,
	})
}

// EscalationRecord is the part of the request's record; nil for one that stayed at its tier.
func (r *Review) EscalationRecord() *record.Escalation {
	e := r.Escalation
	if e == nil || e.From.Provider == "" {
		return nil
	}
	return &record.Escalation{From: tier1, To: Tier2, Reason: string(e.Reason), By: &record.Model{Provider: e.From.Provider, Model: e.From.Model}}
}

// MayReplaceAnswer reports whether a good answer of the request may be replaced by another model's.
func (r *Review) MayReplaceAnswer() bool { return r.Verifies() || r.Escalates() }

// MaxSideCost is the most that calls beside those of the order may cost.
func (r *Review) MaxSideCost() policy.Pico {
	var cost policy.Pico
	input, output := r.Request.MaxInput, int64(r.MaxTokens())
	if r.Verifies() {
		second := r.WithTierPrices([]policy.Resolution{r.Verification.Verifier})
		cost = cost.Plus(resolve.WorstCost(second, input+r.SchemaTokens(second), policy.AddTokens(output, int64(r.ThinkingTokens(second))), 1), r.SearchCost(second))
	}
	if r.Escalates() {
		e, order := r.Escalation, r.WithTierPrices(r.Escalation.Candidates)
		for again := range 1 + r.SchemaRetries() {
			more := policy.AddTokens(input+r.SchemaTokens(e.Candidates), policy.TimesTokens(policy.AddTokens(output, CorrectionTokens), int64(again)))
			cost = cost.Plus(resolve.WorstCost(order, more, policy.AddTokens(output, int64(wire.Budgets[request.EffortOf(e.Request)])), 1), r.SearchCost(order))
		}
	}
	return cost
}

// pinnedProvider is the one provider that the request asks for; "" for any.
func (r *Review) pinnedProvider() policy.ProviderID {
	if r.Intent.Provider != "" {
		return r.Intent.Provider
	}
	p, _, _ := r.Config.Resolver.Split(r.Intent.Model)
	return p
}
