// Package dryrun says what would be done with a request: who would serve it, in which order, why others would not, and what it may cost.
// Nothing is sent, counted or charged.
package dryrun

import (
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/resolve"
)

// Query is a request to be explained.
type Query struct {
	Hints       policy.Hints
	Facts       intent.Facts
	Principal   policy.Principal
	At          time.Time // of schedules
	ServiceTier string    // the tier of service that it asks for; "" for the usual one

	Affinity func(*intent.Built) policy.Kept // where its conversation is served; may be nil

	Request *chat.Request // what it holds; nil: nothing is known of it
}

// Result is what would be done with a request, and why.
type Result struct {
	Order     []Candidate
	Refused   []resolve.Refusal
	Profile   policy.Profile    // how its answer is to be made
	Pipeline  string            // how much context engineering it gets
	Reasoning profile.Reasoning // how its answer is thought about
	Why       []string          // what was changed about its needs, for people
	Warning   string            // hints that mean nothing, as X-Bardo-Warning has it
	Error     string            // the fault's code and sentence, when nobody serves it
	Inferred  *Inferred         // what the request seems to need; nil where it says so itself, or names its model
	Input     int64             // the tokens of the estimates
	Output    int64

	serviceTier string // of service
}

// Inferred is what a request that leaves its model to the gateway seems to need.
type Inferred struct {
	Task       string         `json:"task"`
	Difficulty float64        `json:"difficulty"`
	Quality    string         `json:"quality"`
	Expected   int64          `json:"expected_output_tokens"`
	Points     []intent.Point `json:"points"`
	Stays      string         `json:"stays_at,omitempty"` // where the conversation was served
}

func newInferred(b *intent.Built) *Inferred {
	if b.Task.Name == "" {
		return nil
	}
	i := &Inferred{Task: b.Task.Name, Difficulty: round4(b.Task.Difficulty), Quality: b.Quality.String(), Expected: b.Expected, Points: slices.Clone(b.Task.Points())}
	for k := range i.Points {
		i.Points[k].Worth = round4(i.Points[k].Worth)
	}
	if b.Kept.Model != "" {
		i.Stays = string(b.Kept.Provider) + "/" + string(b.Kept.Model)
	}
	return i
}

// Candidate is one way to serve a request.
type Candidate struct {
	Provider     policy.ProviderID
	Model        policy.ModelID
	Upstream     string
	State        string // of health
	Features     []policy.Feature
	Degraded     []string
	Score        float64 // 0: it was not scored
	ProviderCost int64   // policy.Pico
	Cost         int64   // policy.Micro, with the spread
	PriceKnown   bool
	Direct       bool // its user pays
	Why          string
	Terms        *policy.Terms // of the score; nil where it was not scored
}

// Run says what would be done with a request, for a plan that orders providers by their health and leaves out those that an
// operator disabled, and for what is known of that health.
func Run(rt *runtime.Config, ask *Query, plan func([]policy.ProviderID) []policy.ProviderID, state func(policy.ProviderID) string) Result {
	built := rt.Needs(&ask.Hints, &ask.Facts, &ask.Principal)
	if ask.Affinity != nil {
		built.Stay(ask.Affinity(&built))
	}
	d := rt.Resolver.Explain(&built.Intent)
	e := Result{
		Pipeline: intent.Pipeline(&built.Intent, ask.Hints.Pipeline, rt.Intents.Pipeline), Why: built.Why, Refused: d.Refused, Warning: hint.Warning(&ask.Hints),
		Inferred: newInferred(&built), Input: max(ask.Facts.InputTokens, 0), Output: ask.Facts.OutputTokens, serviceTier: ask.ServiceTier,
	}
	if e.Output <= 0 {
		e.Output = int64(rt.ReserveOutput)
	}
	e.setReasoning(rt.Profiles.Build(&ask.Hints, &built.Intent, ask.At), ask.Facts.Effort)
	if ask.Request != nil {
		d.Err = request.WithContentPath(ask.Request, d.Err)
		d.Order = e.filterByPrice(rt, ask.Request, e.filterByContent(rt, ask.Request, d.Order))
	}
	if d.Err != nil {
		e.Error = publicError(d.Err)
	}
	if e.Error != "" {
		return e
	}
	order := plan(request.ProvidersOf(d.Order))
	for _, to := range request.ByHealth(d.Order, order) {
		e.Order = append(e.Order, newCandidate(rt, &to, &e, ask.Principal.Tier, state(to.Provider)))
	}
	e.refuseDisabled(d.Order, order)
	if second := verifierOf(rt, &ask.Hints, &built.Intent, e.Order); second != "" {
		e.Why = append(e.Why, second)
	}
	return e
}

// setReasoning notes how the answer is made and thought about, by its profile, if it has one, and by the effort that the client's own
// parameters say, which stands over it unless it is locked.
func (e *Result) setReasoning(d *profile.Decision, said policy.Effort) {
	if d != nil {
		e.Profile, e.Reasoning = d.Applied, d.Reasoning
	}
	if said == policy.EffortUnsaid || d != nil && d.Locked {
		return
	}
	e.Reasoning.Depth = said
	if said == policy.EffortNone {
		e.Reasoning = profile.Reasoning{Depth: said}
	}
}

func newCandidate(rt *runtime.Config, to *policy.Resolution, e *Result, tier policy.Tier, state string) Candidate {
	output := e.Output
	if to.MaxOutput > 0 {
		output = min(output, int64(to.MaxOutput))
	}
	in, _ := to.Prices.InTier(e.serviceTier)
	cost := resolve.WorstCost([]policy.Resolution{{Prices: in.Uncached()}}, e.Input, output, 1)
	return Candidate{
		Provider: to.Provider, Model: to.Model, Upstream: to.Upstream, State: state, Features: to.Features, Degraded: to.Degraded,
		Score: to.Score, ProviderCost: int64(cost), Cost: int64(cost.Charge(rt.Spread(tier))), PriceKnown: to.Prices.Known, Direct: rt.Resolver.Direct(to.Provider), Why: to.Why, Terms: to.Terms,
	}
}

// refuseDisabled refuses the providers that an operator disabled.
func (e *Result) refuseDisabled(found []policy.Resolution, order []policy.ProviderID) {
	var disabled []resolve.Refusal
	for _, id := range request.ProvidersOf(found) {
		if !slices.Contains(order, id) {
			i := slices.IndexFunc(found, func(r policy.Resolution) bool { return r.Provider == id })
			disabled = append(disabled, resolve.Refusal{Provider: id, Model: string(found[i].Model), Reason: "an operator disabled it"})
		}
	}
	e.Refused = append(disabled, e.Refused...)
	if len(e.Order) == 0 {
		e.Error = publicError(fault.Newf(fault.NoProvider, "every provider of this model is disabled"))
	}
}

// publicError is a fault as a client reads it.
func publicError(err error) string {
	f := fault.From(err)
	return f.CodeString() + ": " + f.Public
}
