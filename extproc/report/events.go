package report

import (
	"slices"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/resolve"
)

// The events of requests, for `bardo watch` and telemetry.events, and what emits them. Their names and fields are in extproc/record. Those of
// schemas, verification and escalation are in extproc/review.

// Events returns the sink of the request's events. Events of a deferred request's run are buffered there until it is the last run.
func (r *Report) Events() *event.Sink { return r.Review.Events }

// Route emits the events of the decision: the first candidate, and which requested features it has. Those of a deferred request were emitted when it
// was accepted.
func (r *Report) Route() {
	if !r.Events().On() || r.Later != nil {
		return
	}
	to := &r.Order[0]
	r.start(to)
	record.EventResolved.Emit(r.Events(), r.Principal.Account, record.ProviderResolved{
		RequestID: r.ID, Subsystem: r.Hints.Subsystem, Provider: to.Provider, Model: to.Model, Features: listed(to.Features), Degraded: listed(to.Degraded),
	})
	r.relaxed(to)
	requested := slices.Concat(r.Intent.Require, r.Intent.Prefer)
	if len(requested) == 0 {
		return
	}
	n := record.FeaturesNegotiated{RequestID: r.ID, Subsystem: r.Hints.Subsystem, Requested: requested, Available: []policy.Feature{}, Mode: "full"}
	for _, f := range requested {
		if slices.Contains(to.Features, f) {
			n.Available = append(n.Available, f)
		}
	}
	if len(n.Available) < len(requested) {
		n.Mode = "degraded"
	}
	record.EventNegotiated.Emit(r.Events(), r.Principal.Account, n)
}

// relaxed reports a task that continues without the enclave that it requires.
func (r *Report) relaxed(to *policy.Resolution) {
	if !slices.Contains(to.Degraded, resolve.PrivacyTier) {
		return
	}
	record.EventRelaxed.Emit(r.Operators, r.Principal.Account, record.PrivacyRelaxed{
		RequestID: r.ID, Subsystem: r.Hints.Subsystem, TaskClass: r.Hints.TaskClass, Tier: r.Intent.PrivacyTier.String(), Provider: to.Provider, Model: to.Model,
	})
}

// Fallback emits the event of a failover to another provider.
func (r *Report) Fallback(failed policy.Resolution, f *upstream.Failure) {
	if !r.Events().On() || !f.Retriable() {
		return
	}
	i := slices.IndexFunc(r.Order, func(r policy.Resolution) bool { return r.Provider == failed.Provider && r.Model == failed.Model })
	if i < 0 || i+1 >= len(r.Order) || r.Order[i+1].Provider == failed.Provider {
		return
	}
	if !slices.Contains(failed.Degraded, resolve.PrivacyTier) {
		r.relaxed(&r.Order[i+1])
	}
	record.EventFallback.Emit(r.Events(), r.Principal.Account, record.ProviderFallback{
		RequestID: r.ID, Failed: failed.Provider, Fallback: r.Order[i+1].Provider, Reason: f.String(),
	})
	r.fellBack(failed.Provider, r.Order[i+1].Provider, f.String())
}

// Retained reports an answer that was discarded because its provider did not confirm zero retention.
func (r *Report) Retained(to *policy.Resolution, f *upstream.Failure) {
	if f.Kind != upstream.Retained {
		return
	}
	r.Logger.Warn("the answer to a private request was discarded: its provider did not confirm that it retains nothing", "request", r.ID,
		"provider", string(to.Provider), "model", string(to.Model), "reason", f.Cause.Error())
	if r.Operators.On() {
		record.EventRetention.Emit(r.Operators, r.Principal.Account, record.RetentionError{
			RequestID: r.ID, Subsystem: r.Hints.Subsystem, TaskClass: r.Hints.TaskClass, Provider: to.Provider, Model: to.Model,
			Error: upstream.RetentionError, Reason: f.Cause.Error(),
		})
	}
}

// listed returns a list that is encoded as [] in JSON if it is empty.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// nameVenice is the kind of provider whose reasoning has an event of its own.
const nameVenice = "venice"

// Answered emits the events of an answer of by: tokens from the provider's prompt cache, web searches, Venice's reasoning.
func (r *Report) Answered(by *policy.Resolution, u *chat.Usage) {
	if !r.Events().On() {
		return
	}
	if written := u.CacheWrite + u.CacheWrite1h; u.Cached+written > 0 {
		record.EventCacheStats.Emit(r.Events(), r.Principal.Account, record.CacheStats{
			RequestID: r.ID, Provider: by.Provider, Model: by.Model, Written: written, Subsystem: r.Hints.Subsystem, Cached: u.Cached,
			Total: u.TotalInput(), Savings: r.Bill.CacheSaved(),
		})
	}
	venice := r.Config.Provider(by.Provider).Adapter.Name() == nameVenice
	if u.Searches > 0 {
		searched := record.WebSearched{RequestID: r.ID, Subsystem: r.Hints.Subsystem, Provider: by.Provider, Searches: u.Searches}
		record.EventSearched.Emit(r.Events(), r.Principal.Account, searched)
		if venice {
			record.EventVenice.Emit(r.Events(), r.Principal.Account, searched)
		}
	}
	if u.Reasoning > 0 && venice {
		record.EventReasoning.Emit(r.Events(), r.Principal.Account, record.ReasoningExtracted{RequestID: r.ID, Subsystem: r.Hints.Subsystem, Tokens: u.Reasoning})
	}
}

// Reasoning reports that an answer showed reasoning, or that its provider counted reasoning tokens. A stored answer has none.
func (r *Report) Reasoning(c *reasoning.Chain, surface render.Surface) {
	if !r.Events().On() || c.Visibility == reasoning.None {
		return
	}
	record.EventCaptured.Emit(r.Events(), r.Principal.Account, record.ReasoningCaptured{
		RequestID: r.ID, Subsystem: r.Hints.Subsystem, Provider: c.Provider, Model: c.Model, Visibility: c.Visibility.String(), Tokens: c.Tokens,
		Estimated: c.Estimated, Interleaved: c.Interleaved, Surface: surface.String(),
	})
}

// Capped reports capped usage in metrics, log and events: the provider's count or the model's configured window is wrong.
func (r *Report) Capped(to *policy.Resolution, u *chat.Usage) {
	maxTokens := r.MaxCallTokens(to)
	r.Metrics.UsageCapped(string(to.Provider))
	r.Logger.Warn("a provider reported more usage than a call can have; what is beyond is not charged", "request", r.ID, "provider", string(to.Provider),
		"model", string(to.Model), "input_tokens", u.TotalInput(), "output_tokens", u.Output, "most", maxTokens)
	if r.Events().On() {
		record.EventCapped.Emit(r.Events(), r.Principal.Account, record.UsageCapped{
			RequestID: r.ID, Provider: to.Provider, Model: to.Model, Input: u.TotalInput(), Output: u.Output, Cost: u.Cost, Most: maxTokens,
		})
	}
}

// Exhausted emits the event of a subsystem's exhausted budget.
func (r *Report) Exhausted(d *budget.Decision, u budget.Use) {
	if !r.Events().On() || r.Later != nil { // it was emitted when the request was accepted
		return
	}
	b := &r.Bill.Allowance
	record.EventBudget.Emit(r.Events(), r.Principal.Account, record.BudgetExhausted{
		RequestID: r.ID, GolemID: r.Hints.GolemID, Subsystem: r.Hints.Subsystem, Part: b.Part.String(), Degraded: d.Degraded, Budget: b.Limits[b.Part],
		Spent: u.Spent, Held: u.Held,
	})
}

// Hedged emits the event of the request's second candidate.
func (r *Report) Hedged() {
	if h := r.Trace.Hedge; r.Events().On() {
		record.EventHedged.Emit(r.Events(), r.Principal.Account, record.Hedged{
			RequestID: r.ID, Subsystem: r.Hints.Subsystem, Outcome: h.Outcome, Slow: r.Order[0].Provider, Provider: h.Provider, Model: h.Model, AfterMS: time.Since(r.Started).Milliseconds(),
		})
	}
}

// Profile emits the events of a profile: what it set, once per request, and the parameters that an attempt's provider does not support.
func (r *Report) Profile(unsupported []string) {
	d := r.ProfileDecision
	if d == nil || !r.Events().On() {
		return
	}
	if !r.profileEmitted {
		r.profileEmitted = true
		record.EventProfileApplied.Emit(r.Events(), r.Principal.Account, applied(r.Request, d))
	}
	if len(unsupported) > 0 {
		record.EventProfileDegraded.Emit(r.Events(), r.Principal.Account, record.ProfileDegraded{Subsystem: d.Profile.Subsystem, Degraded: slices.Clone(unsupported)})
	}
}

// number returns s if it is a number, as a request's parameter should be, else "": other text would be client content.
func number(s string) string {
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		return ""
	}
	return s
}

func applied(r *chat.Request, d *profile.Decision) record.ProfileApplied {
	return record.ProfileApplied{
		Subsystem: d.Profile.Subsystem, Temperature: number(r.Temperature()), ReasoningEffort: d.Applied.Effort.String(),
		Structured: d.Applied.SchemaName != "" || len(d.Applied.Schema) > 0,
		Cached:     d.Applied.PromptCacheKey != "" || d.Applied.CacheControl != nil && *d.Applied.CacheControl,
	}
}

// Over reports the end of the request, and what the rules decided. For a deferred request, decisions about the request itself were reported when it
// was accepted, unless it is refused now.
func (r *Report) Over() {
	r.over()
	r.decided()
	for i := range r.Tags {
		t := &r.Tags[i]
		if r.Later != nil && (t.Stage == policy.StageTools || t.Stage == policy.StageRequest) && t.Decision != policy.DecisionRefused {
			continue
		}
		r.Metrics.RuleDecided(t.By, t.Rule, t.Decision, t.Reason, t.Shadow)
		if t.Decision != policy.DecisionAllowed && r.Events().On() {
			record.EventDecision.Emit(r.Events(), r.Principal.Account, record.DecisionMade{RequestID: r.ID, Subsystem: r.Hints.Subsystem, GolemID: r.Hints.GolemID, Tag: *t})
		}
	}
}
