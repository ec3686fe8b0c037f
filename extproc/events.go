package extproc

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/profile"
)

// The events of requests, for `bardo watch` and telemetry.events: their names, what each tells, and what emits it. None has content. Those of
// schemas, verification and escalation are in extproc/review.

// The events of routing.
const (
	eventResolved   = "provider:resolved"
	eventNegotiated = "provider:feature_negotiated"
	eventFallback   = "provider:fallback"
)

type providerResolved struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Features  []policy.Feature  `json:"features"`
	Degraded  []string          `json:"degraded"`
}

type featuresNegotiated struct {
	RequestID string           `json:"request_id"`
	Subsystem string           `json:"subsystem"`
	Requested []policy.Feature `json:"requested"`
	Available []policy.Feature `json:"available"`
	Mode      string           `json:"mode"` // full: all requested features are available; degraded
}

type providerFallback struct {
	RequestID string            `json:"request_id"`
	Failed    policy.ProviderID `json:"failed"`
	Fallback  policy.ProviderID `json:"fallback"`
	Reason    string            `json:"reason"`
}

// tellRoute emits the events of the decision: the first candidate, and which requested features it has.
func (x *exchange) tellRoute() {
	if !x.gw.Events.On() {
		return
	}
	to := &x.Order[0]
	x.gw.Events.Emit(eventResolved, x.Principal.Account, providerResolved{
		x.ID, x.Hints.Subsystem, to.Provider, to.Model, listed(to.Features), listed(to.Degraded),
	})
	requested := slices.Concat(x.Intent.Require, x.Intent.Prefer)
	if len(requested) == 0 {
		return
	}
	n := featuresNegotiated{RequestID: x.ID, Subsystem: x.Hints.Subsystem, Requested: requested, Available: []policy.Feature{}, Mode: "full"}
	for _, f := range requested {
		if slices.Contains(to.Features, f) {
			n.Available = append(n.Available, f)
		}
	}
	if len(n.Available) < len(requested) {
		n.Mode = "degraded"
	}
	x.gw.Events.Emit(eventNegotiated, x.Principal.Account, n)
}

// tellFallback emits the event of a failover to another provider.
func (x *exchange) tellFallback(failed policy.Resolution, f *upstream.Failure) {
	if !x.gw.Events.On() || !f.Retriable() {
		return
	}
	i := slices.IndexFunc(x.Order, func(r policy.Resolution) bool { return r.Provider == failed.Provider && r.Model == failed.Model })
	if i < 0 || i+1 >= len(x.Order) || x.Order[i+1].Provider == failed.Provider {
		return
	}
	x.gw.Events.Emit(eventFallback, x.Principal.Account, providerFallback{x.ID, failed.Provider, x.Order[i+1].Provider, f.String()})
}

// listed is a list that JSON writes as [] where it is empty.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// The events of answers.
const (
	eventCacheStats = "inference:cache_stats"
	eventReasoning  = "venice:reasoning_extracted"
	eventSearched   = "inference:web_search_used"
	eventVenice     = "venice:web_search"
)

// nameVenice is the kind of provider whose reasoning has an event of its own.
const nameVenice = "venice"

type cacheStats struct {
	RequestID string            `json:"request_id"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Written   int64             `json:"cache_write_tokens"`
	Subsystem string            `json:"subsystem"`
	Cached    int64             `json:"cached_tokens"`
	Total     int64             `json:"total_tokens"`
	Savings   policy.Pico       `json:"savings_usd"` // by the provider's prices, against the same tokens uncached; below zero where only the premium was paid
}

type reasoningExtracted struct {
	RequestID string `json:"request_id"`
	Subsystem string `json:"subsystem"`
	Tokens    int64  `json:"reasoning_tokens"`
}

// webSearched is the event of a provider that searched the web. It does not say for what.
type webSearched struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Provider  policy.ProviderID `json:"provider"`
	Searches  int64             `json:"searches"` // at least
}

// tellAnswer emits the events of an answer: tokens from the provider's prompt cache, web searches, Venice's reasoning.
func (x *exchange) tellAnswer(a *answer, u *chat.Usage) {
	if !x.gw.Events.On() {
		return
	}
	if written := u.CacheWrite + u.CacheWrite1h; u.Cached+written > 0 {
		x.gw.Events.Emit(eventCacheStats, x.Principal.Account, cacheStats{
			x.ID, a.res.Provider, a.res.Model, written, x.Hints.Subsystem, u.Cached, u.TotalInput(), x.bill.CacheSaved(),
		})
	}
	venice := x.Config.Providers[a.res.Provider].Adapter.Name() == nameVenice
	if u.Searches > 0 {
		told := webSearched{x.ID, x.Hints.Subsystem, a.res.Provider, u.Searches}
		x.gw.Events.Emit(eventSearched, x.Principal.Account, told)
		if venice {
			x.gw.Events.Emit(eventVenice, x.Principal.Account, told)
		}
	}
	if u.Reasoning > 0 && venice {
		x.gw.Events.Emit(eventReasoning, x.Principal.Account, reasoningExtracted{x.ID, x.Hints.Subsystem, u.Reasoning})
	}
}

// eventCaptured tells that an answer was thought about: how much, and not what.
const eventCaptured = "inference:reasoning_captured"

type reasoningCaptured struct {
	RequestID   string               `json:"request_id"`
	Subsystem   string               `json:"subsystem"`
	Provider    policy.ProviderID    `json:"provider"`
	Model       policy.ModelID       `json:"model"`
	Visibility  reasoning.Visibility `json:"visibility"`
	Tokens      int64                `json:"reasoning_tokens"`
	Estimated   bool                 `json:"estimated"`
	Interleaved bool                 `json:"interleaved"`
	Surface     string               `json:"surface"`
}

// tellReasoning reports that an answer showed reasoning, or that its provider counted some. Nothing was thought about a stored one.
func (x *exchange) tellReasoning(a *answer) {
	if !x.gw.Events.On() || a.reasoning == nil {
		return
	}
	c := a.chain()
	if c.Visibility == reasoning.None {
		return
	}
	x.gw.Events.Emit(eventCaptured, x.Principal.Account, reasoningCaptured{
		x.ID, x.Hints.Subsystem, c.Provider, c.Model, c.Visibility, c.Tokens, c.Estimated, c.Interleaved, a.reasoning.View.Surface.String(),
	})
}

// eventCapped is the event of a provider that reported more usage than a call can have.
const eventCapped = "inference:usage_capped"

type usageCapped struct {
	RequestID string            `json:"request_id"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Input     int64             `json:"reported_input_tokens"`
	Output    int64             `json:"reported_output_tokens"`
	Cost      policy.Pico       `json:"reported_cost_usd"`
	Most      int64             `json:"most_tokens"`
}

// reportCapped reports capped usage in metrics, log and events: the provider is wrong, or the model's configured window.
func (x *exchange) reportCapped(to *policy.Resolution, u *chat.Usage) {
	most := x.MostTokens(to)
	x.gw.Metrics.UsageCapped(string(to.Provider))
	x.gw.Log.Warn("a provider reported more usage than a call can have; what is beyond is not charged", "request", x.ID, "provider", string(to.Provider),
		"model", string(to.Model), "input_tokens", u.TotalInput(), "output_tokens", u.Output, "most", most)
	if x.gw.Events.On() {
		x.gw.Events.Emit(eventCapped, x.Principal.Account, usageCapped{x.ID, to.Provider, to.Model, u.TotalInput(), u.Output, u.Cost, most})
	}
}

// eventBudget is the event of a subsystem that has spent its budget.
const eventBudget = "inference:budget_exhausted"

type budgetExhausted struct {
	RequestID string       `json:"request_id"`
	GolemID   string       `json:"golem_id,omitempty"`
	Subsystem string       `json:"subsystem"`
	Part      string       `json:"part"`
	Degraded  string       `json:"degraded"`
	Budget    policy.Micro `json:"budget_usd"`
	Spent     policy.Micro `json:"spent_usd"`
	Held      policy.Micro `json:"held_usd"` // reserved by requests in flight
}

func (x *exchange) tellExhausted(d *budget.Decision, u budget.Use) {
	if !x.gw.Events.On() {
		return
	}
	b := &x.bill.Allowance
	x.gw.Events.Emit(eventBudget, x.Principal.Account, budgetExhausted{
		x.ID, x.Hints.GolemID, x.Hints.Subsystem, b.Part.String(), d.Degraded, b.Limits[b.Part], u.Spent, u.Held,
	})
}

// The events of profiles.
const (
	eventProfileApplied  = "inference:profile_applied"
	eventProfileDegraded = "inference:profile_degraded"
)

type profileApplied struct {
	Subsystem       string `json:"subsystem"`
	Temperature     string `json:"temperature,omitempty"` // after the client's parameter, the profile and vitality
	ReasoningEffort string `json:"reasoning_effort,omitempty"`
	Structured      bool   `json:"structured"`
	Cached          bool   `json:"cached"`
}

type profileDegraded struct {
	Subsystem string   `json:"subsystem"`
	Degraded  []string `json:"degraded"`
}

// tellProfile emits the events of a profile: what it set, once per request, and what an attempt's provider has no parameter for.
func (x *exchange) tellProfile(lost []string) {
	d := x.ProfileDecision
	if d == nil || !x.gw.Events.On() {
		return
	}
	if !x.profileTold {
		x.profileTold = true
		x.gw.Events.Emit(eventProfileApplied, x.Principal.Account, applied(x.Request, d))
	}
	if len(lost) > 0 {
		x.gw.Events.Emit(eventProfileDegraded, x.Principal.Account, profileDegraded{d.Profile.Subsystem, slices.Clone(lost)})
	}
}

func applied(r *chat.Request, d *profile.Decision) profileApplied {
	return profileApplied{
		Subsystem: d.Profile.Subsystem, Temperature: r.Temperature(), ReasoningEffort: d.Applied.Effort.String(),
		Structured: d.Applied.SchemaName != "" || len(d.Applied.Schema) > 0,
		Cached:     d.Applied.PromptCacheKey != "" || d.Applied.CacheControl != nil && *d.Applied.CacheControl,
	}
}

// eventDeferred is the prefix of the events of a deferred request: accepted, batched, answered, failed, expired, cancelled.
const eventDeferred = "inference:deferred_"

// tellDeferred emits what has happened to a deferred request.
func (g *Gateway) tellDeferred(account policy.Account, e *deferred.Event) {
	if g.Events.On() {
		g.Events.Emit(eventDeferred+e.State, account, *e)
	}
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
