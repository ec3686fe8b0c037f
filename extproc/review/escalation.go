package review

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// HeaderEscalated is set when a better model than the first one answered.
const HeaderEscalated = "x-bardo-escalated"

// checkEscalate is the part of a cache key for requests that may be escalated to tier T2: their answers are stored apart.
const checkEscalate = "escalate"

// The tiers of heartbeats.
const (
	tier1 = "heartbeat_t1"
	Tier2 = "heartbeat_t2"
)

// Escalation is how the request is sent to tier T2, if its answer asks for it.
type Escalation struct {
	Candidates []policy.Resolution
	Request    *chat.Request // with the profile of that tier
	Reason     structured.Escalation
	From       policy.Resolution // the candidate of T1 whose answer was replaced; no provider if none was
}

// PlanEscalation decides whether the request may be escalated to tier T2, and finds its candidates. Constraints on providers, and those of the
// agent's vitality, apply as for the first call. The gateway makes the second call itself: it never uses a user's own key, and is not made if the
// first call uses one.
func (r *Review) PlanEscalation() {
	if r.Hints.Subsystem != tier1 || !r.mayEscalate() || r.Request.Op != chat.Generate || r.Verbatim() || r.Verifies() || r.SchemaName() == "" || !r.verifiable() || r.CallerPays(r.Found[0].Provider) {
		return
	}
	h := r.Hints
	h.Subsystem, h.Quality = Tier2, policy.QualityUnset // the hint is for the first tier
	f := hint.Facts(r.Request, int64(r.Request.MaxTokens))
	f.Model, f.Provider = "", ""
	if !r.Request.HasThinking() { // the effort was set by the profile of tier T1
		f.Effort = policy.EffortUnset
	}
	built := r.Config.Needs(&h, &f, &r.Principal)
	if built.Quality <= r.Intent.Quality {
		return
	}
	built.Provider = r.pinnedProvider()
	d := r.Config.Resolver.Decide(&built.Intent)
	order := slices.DeleteFunc(d.Order, func(to policy.Resolution) bool {
		return r.CallerPays(to.Provider) || !r.MayCall(&to) || r.Config.UnsupportedContent(r.Request, &to) != nil || !r.HasPrices(&to) ||
			resolve.Weaker(&r.Intent, &r.Found[0], &to) || to.Model == r.Found[0].Model
	})
	if len(order) == 0 {
		return
	}
	r.Escalation = &Escalation{Candidates: order, Request: r.tier2Request(&h, &built.Intent, &order[0])}
	r.Request.Check = checkEscalate
}

// FollowRequest copies what the layers changed in the request: T2 gets the same as T1.
func (r *Review) FollowRequest() {
	if r.Escalation != nil {
		e := r.Escalation.Request
		e.SetDocument(r.Request)
		if !request.WantsSearch(r.Request) { // a layer may have switched it off
			e.Profile = e.Profile.Without([]string{"web_search"})
		}
	}
}

// mayEscalate reports whether the request's hint, or else the configuration, allows escalation.
func (r *Review) mayEscalate() bool {
	if r.Hints.Escalate != nil {
		return *r.Hints.Escalate
	}
	return r.Config.Escalation.On
}

// tier2Request returns the client's request under the profile of tier T2.
func (r *Review) tier2Request(h *policy.Hints, in *policy.Intent, first *policy.Resolution) *chat.Request {
	req := *r.Request
	if !req.HasThinking() { // it was set by the profile of tier T1
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

// Escalates reports whether tier T2 may be called.
func (r *Review) Escalates() bool { return r.Escalation != nil && len(r.Escalation.Candidates) > 0 }

// EscalatedStatus returns the value of X-Bardo-Escalated; "" for an answer that was not escalated.
func (r *Review) EscalatedStatus() string {
	if r.Escalation == nil || r.Escalation.From.Provider == "" {
		return ""
	}
	return tier1 + "->" + Tier2 + "; reason=" + string(r.Escalation.Reason)
}

// The escalation event.
var eventEscalated = event.Declare[escalatedEvent]("inference:escalated", "A weaker model's answer was replaced by a better one's.")

type escalatedEvent struct {
	RequestID    string            `json:"request_id"`
	From         string            `json:"from"`
	To           string            `json:"to"`
	Reason       string            `json:"reason"`
	Provider     policy.ProviderID `json:"provider"` // provider of the answer that is sent
	Model        policy.ModelID    `json:"model"`
	FromProvider policy.ProviderID `json:"from_provider"`
	FromModel    policy.ModelID    `json:"from_model"`
}

// EmitEscalated emits the event of an escalation; to is the candidate whose answer is sent.
func (r *Review) EmitEscalated(to *policy.Resolution) {
	if !r.Events.On() {
		return
	}
	e := r.Escalation
	eventEscalated.Emit(r.Events, r.Principal.Account, escalatedEvent{
		r.ID, tier1, Tier2, string(e.Reason), to.Provider, to.Model, e.From.Provider, e.From.Model,
	})
}

// EscalationRecord returns the escalation in the request's record; nil for none.
func (r *Review) EscalationRecord() *record.Escalation {
	e := r.Escalation
	if e == nil || e.From.Provider == "" {
		return nil
	}
	return &record.Escalation{From: tier1, To: Tier2, Reason: string(e.Reason), By: &record.Model{Provider: e.From.Provider, Model: e.From.Model}}
}

// MayReplaceAnswer reports whether a valid answer may be replaced by another model's.
func (r *Review) MayReplaceAnswer() bool { return r.Verifies() || r.Escalates() }

// MaxSideCost returns the highest possible cost of side calls: of the verifier, and of tier T2.
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

// pinnedProvider returns the provider that the request names; "" for none.
func (r *Review) pinnedProvider() policy.ProviderID {
	if r.Intent.Provider != "" {
		return r.Intent.Provider
	}
	p, _, _ := r.Config.Resolver.Split(r.Intent.Model)
	return p
}
