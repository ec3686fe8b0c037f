package extproc

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/resolve"
)

// The events of requests, for `bardo watch` and telemetry.events: what emits them; their names, and what each tells, are in extproc/record. Those of
// schemas, verification and escalation are in extproc/review.

// events are where those of the request go. Those of a deferred request's run wait there until it is the last one.
func (x *exchange) events() *event.Sink { return x.review.Events }

// tellRoute emits the events of the decision: the first candidate, and which requested features it has. Those of a deferred request were told when it was
// accepted.
func (x *exchange) tellRoute() {
	if !x.events().On() || x.later != nil {
		return
	}
	to := &x.Order[0]
	x.events().Emit(record.EventResolved, x.Principal.Account, record.ProviderResolved{
		RequestID: x.ID, Subsystem: x.Hints.Subsystem, Provider: to.Provider, Model: to.Model, Features: listed(to.Features), Degraded: listed(to.Degraded),
	})
	x.tellRelaxed(to)
	requested := slices.Concat(x.Intent.Require, x.Intent.Prefer)
	if len(requested) == 0 {
		return
	}
	n := record.FeaturesNegotiated{RequestID: x.ID, Subsystem: x.Hints.Subsystem, Requested: requested, Available: []policy.Feature{}, Mode: "full"}
	for _, f := range requested {
		if slices.Contains(to.Features, f) {
			n.Available = append(n.Available, f)
		}
	}
	if len(n.Available) < len(requested) {
		n.Mode = "degraded"
	}
	x.events().Emit(record.EventNegotiated, x.Principal.Account, n)
}

// tellRelaxed reports a task that continues without the enclave that it needs.
func (x *exchange) tellRelaxed(to *policy.Resolution) {
	if !slices.Contains(to.Degraded, resolve.PrivacyTier) {
		return
	}
	x.gw.Events.Emit(record.EventRelaxed, x.Principal.Account, record.PrivacyRelaxed{
		RequestID: x.ID, Subsystem: x.Hints.Subsystem, TaskClass: x.Hints.TaskClass, Tier: x.Intent.PrivacyTier.String(), Provider: to.Provider, Model: to.Model,
	})
}

// tellFallback emits the event of a failover to another provider.
func (x *exchange) tellFallback(failed policy.Resolution, f *upstream.Failure) {
	if !x.events().On() || !f.Retriable() {
		return
	}
	i := slices.IndexFunc(x.Order, func(r policy.Resolution) bool { return r.Provider == failed.Provider && r.Model == failed.Model })
	if i < 0 || i+1 >= len(x.Order) || x.Order[i+1].Provider == failed.Provider {
		return
	}
	x.events().Emit(record.EventFallback, x.Principal.Account, record.ProviderFallback{
		RequestID: x.ID, Failed: failed.Provider, Fallback: x.Order[i+1].Provider, Reason: f.String(),
	})
}

// tellRetained reports an answer that was discarded because its provider did not confirm that it retains nothing.
func (x *exchange) tellRetained(to *policy.Resolution, f *upstream.Failure) {
	if f.Kind != upstream.Retained {
		return
	}
	x.gw.Log.Warn("the answer to a private request was discarded: its provider did not confirm that it retains nothing", "request", x.ID,
		"provider", string(to.Provider), "model", string(to.Model), "reason", f.Cause.Error())
	if x.gw.Events.On() {
		x.gw.Events.Emit(record.EventRetention, x.Principal.Account, record.RetentionError{
			RequestID: x.ID, Subsystem: x.Hints.Subsystem, TaskClass: x.Hints.TaskClass, Provider: to.Provider, Model: to.Model,
			Error: upstream.RetentionError, Reason: f.Cause.Error(),
		})
	}
}

// listed is a list that JSON writes as [] where it is empty.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// nameVenice is the kind of provider whose reasoning has an event of its own.
const nameVenice = "venice"

// tellAnswer emits the events of an answer: tokens from the provider's prompt cache, web searches, Venice's reasoning.
func (x *exchange) tellAnswer(a *answer, u *chat.Usage) {
	if !x.events().On() {
		return
	}
	if written := u.CacheWrite + u.CacheWrite1h; u.Cached+written > 0 {
		x.events().Emit(record.EventCacheStats, x.Principal.Account, record.CacheStats{
			RequestID: x.ID, Provider: a.res.Provider, Model: a.res.Model, Written: written, Subsystem: x.Hints.Subsystem, Cached: u.Cached,
			Total: u.TotalInput(), Savings: x.bill.CacheSaved(),
		})
	}
	venice := x.Config.Providers[a.res.Provider].Adapter.Name() == nameVenice
	if u.Searches > 0 {
		told := record.WebSearched{RequestID: x.ID, Subsystem: x.Hints.Subsystem, Provider: a.res.Provider, Searches: u.Searches}
		x.events().Emit(record.EventSearched, x.Principal.Account, told)
		if venice {
			x.events().Emit(record.EventVenice, x.Principal.Account, told)
		}
	}
	if u.Reasoning > 0 && venice {
		x.events().Emit(record.EventReasoning, x.Principal.Account, record.ReasoningExtracted{RequestID: x.ID, Subsystem: x.Hints.Subsystem, Tokens: u.Reasoning})
	}
}

// tellReasoning reports that an answer showed reasoning, or that its provider counted some. Nothing was thought about a stored one.
func (x *exchange) tellReasoning(a *answer) {
	if !x.events().On() || a.reasoning == nil {
		return
	}
	c := a.chain()
	if c.Visibility == reasoning.None {
		return
	}
	x.events().Emit(record.EventCaptured, x.Principal.Account, record.ReasoningCaptured{
		RequestID: x.ID, Subsystem: x.Hints.Subsystem, Provider: c.Provider, Model: c.Model, Visibility: c.Visibility.String(), Tokens: c.Tokens,
		Estimated: c.Estimated, Interleaved: c.Interleaved, Surface: a.reasoning.View.Surface.String(),
	})
}

// reportCapped reports capped usage in metrics, log and events: the provider is wrong, or the model's configured window.
func (x *exchange) reportCapped(to *policy.Resolution, u *chat.Usage) {
	most := x.MostTokens(to)
	x.gw.Metrics.UsageCapped(string(to.Provider))
	x.gw.Log.Warn("a provider reported more usage than a call can have; what is beyond is not charged", "request", x.ID, "provider", string(to.Provider),
		"model", string(to.Model), "input_tokens", u.TotalInput(), "output_tokens", u.Output, "most", most)
	if x.events().On() {
		x.events().Emit(record.EventCapped, x.Principal.Account, record.UsageCapped{
			RequestID: x.ID, Provider: to.Provider, Model: to.Model, Input: u.TotalInput(), Output: u.Output, Cost: u.Cost, Most: most,
		})
	}
}

func (x *exchange) tellExhausted(d *budget.Decision, u budget.Use) {
	if !x.events().On() || x.later != nil { // it was told when it was accepted
		return
	}
	b := &x.bill.Allowance
	x.events().Emit(record.EventBudget, x.Principal.Account, record.BudgetExhausted{
		RequestID: x.ID, GolemID: x.Hints.GolemID, Subsystem: x.Hints.Subsystem, Part: b.Part.String(), Degraded: d.Degraded, Budget: b.Limits[b.Part],
		Spent: u.Spent, Held: u.Held,
	})
}

// tellProfile emits the events of a profile: what it set, once per request, and what an attempt's provider has no parameter for.
func (x *exchange) tellProfile(lost []string) {
	d := x.ProfileDecision
	if d == nil || !x.events().On() {
		return
	}
	if !x.profileTold {
		x.profileTold = true
		x.events().Emit(record.EventProfileApplied, x.Principal.Account, applied(x.Request, d))
	}
	if len(lost) > 0 {
		x.events().Emit(record.EventProfileDegraded, x.Principal.Account, record.ProfileDegraded{Subsystem: d.Profile.Subsystem, Degraded: slices.Clone(lost)})
	}
}

func applied(r *chat.Request, d *profile.Decision) record.ProfileApplied {
	return record.ProfileApplied{
		Subsystem: d.Profile.Subsystem, Temperature: r.Temperature(), ReasoningEffort: d.Applied.Effort.String(),
		Structured: d.Applied.SchemaName != "" || len(d.Applied.Schema) > 0,
		Cached:     d.Applied.PromptCacheKey != "" || d.Applied.CacheControl != nil && *d.Applied.CacheControl,
	}
}

// tellDeferred emits what has happened to a deferred request.
func (g *Gateway) tellDeferred(account policy.Account, e *deferred.Event) {
	if g.Events.On() {
		g.Events.Emit(record.EventDeferred+e.State, account, *e)
	}
}

// tellDecisions reports what the rules decided, when the request is over. Of a deferred request, what they decided about the request itself was reported when it
// was accepted, unless it is refused now.
func (x *exchange) tellDecisions() {
	for i := range x.Tags {
		t := &x.Tags[i]
		if x.later != nil && (t.Stage == policy.StageTools || t.Stage == policy.StageRequest) && t.Decision != policy.DecisionRefused {
			continue
		}
		x.gw.Metrics.RuleDecided(t.By, t.Rule, t.Decision, t.Reason, t.Shadow)
		if t.Decision != policy.DecisionAllowed && x.events().On() {
			x.events().Emit(record.EventDecision, x.Principal.Account, record.DecisionMade{RequestID: x.ID, Subsystem: x.Hints.Subsystem, GolemID: x.Hints.GolemID, Tag: *t})
		}
	}
}
