// Package dryrun explains the routing of a request: its candidates in order, the rejected ones with reasons, and estimated costs. Nothing is sent,
// counted or charged.
package dryrun

import (
	"cmp"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/privacy"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/resolve"
)

// Query is a request to be explained.
type Query struct {
	Hints       policy.Hints
	Facts       intent.Facts
	Principal   policy.Principal
	At          time.Time // time for schedules
	ServiceTier string    // the requested service tier; "" for the default

	Unread string // why the classifier has no result; "" if it has, or was not used

	Affinity func(*intent.Built) policy.ServedBy // returns the model that served the conversation; may be nil

	Broke  bool           // the caller's balance is empty
	OwnKey request.OwnKey // the caller's own key for a provider; the zero value: none

	Request *chat.Request // nil: only the facts are known
}

// Result is the explanation of a request's routing.
type Result struct {
	Order     []Candidate
	Refused   []resolve.Refusal
	Profile   policy.Profile    // the inference parameters
	Pipeline  string            // the pipeline profile
	Policies  map[string]string // what layers do by policy, the key's or the configured one
	Reasoning profile.Reasoning
	Why       []string         // changes of the intent, as text
	Warning   string           // ignored hints, as in X-Bardo-Warning
	Privacy   *request.Privacy // nil for a request without a privacy tier
	Floor     *Floor           // why only free models would serve it; nil: they need not
	Hedge     *Hedge           // nil for a request that is not hedged
	Error     string           // code and message of the fault, when no candidate can serve it
	Inferred  *Inferred        // nil for a request with hints, or that names its model
	Input     int64            // input tokens for the cost estimates
	Output    int64

	serviceTier string
}

// Inferred is the inferred task of a request whose model the gateway chooses.
type Inferred struct {
	Task       string         `json:"task"`
	Difficulty float64        `json:"difficulty"`
	Quality    string         `json:"quality"`
	Expected   int64          `json:"expected_output_tokens"`
	Points     []intent.Point `json:"points"`
	Stays      string         `json:"stays_at,omitempty"` // the candidate that served the conversation
	Classifier *Classified    `json:"classifier,omitempty"`
}

// Classified is the classifier's result.
type Classified struct {
	*intent.Reading

	Silent  string `json:"silent,omitempty"`  // why there is no result
	Changed string `json:"changed,omitempty"` // how it changed the quality: easier, more difficult
}

func newClassified(ask *Query, t *intent.Task) *Classified {
	if ask.Facts.Reading == nil {
		if ask.Unread == "" {
			return nil
		}
		return &Classified{Silent: ask.Unread}
	}
	r := *ask.Facts.Reading
	r.DomainMargin, r.IntentMargin, r.Level = round4(r.DomainMargin), round4(r.IntentMargin), round4(r.Level)
	if r.Injection != nil {
		score := round4(*r.Injection)
		r.Injection = &score
	}
	return &Classified{Reading: &r, Changed: t.Reconsidered}
}

func newInferred(ask *Query, b *intent.Built) *Inferred {
	if b.Task.Name == "" {
		return nil
	}
	i := &Inferred{Task: b.Task.Name, Difficulty: round4(b.Task.Difficulty), Quality: b.Quality.String(), Expected: b.Expected, Points: slices.Clone(b.Task.Points()), Classifier: newClassified(ask, &b.Task)}
	for k := range i.Points {
		i.Points[k].Worth = round4(i.Points[k].Worth)
	}
	if b.ServedBy.Model != "" {
		i.Stays = string(b.ServedBy.Provider) + "/" + string(b.ServedBy.Model)
	}
	return i
}

// Candidate is a provider and model that may serve the request.
type Candidate struct {
	Provider     policy.ProviderID
	Model        policy.ModelID
	Upstream     string
	State        string // health state
	Features     []policy.Feature
	Degraded     []string
	Score        float64 // 0: not scored
	ProviderCost int64   // policy.Pico
	Cost         int64   // policy.Micro, with the spread
	PriceKnown   bool
	Direct       bool // paid with the user's own key
	Why          string
	Terms        *policy.Terms // of the score; nil: not scored
}

// Run explains a request. plan orders providers by health and leaves out disabled ones; state is a provider's health for display.
func Run(rt *runtime.Config, ask *Query, plan func([]policy.ProviderID) []policy.ProviderID, state func(policy.ProviderID) string) Result {
	built := rt.Needs(&ask.Hints, &ask.Facts, &ask.Principal)
	if ask.Affinity != nil {
		built.KeepModel(ask.Affinity(&built))
	}
	d := rt.Resolver.Explain(&built.Intent)
	e := Result{
		Policies: rt.Pipeline.Guards(&ask.Principal, ask.Hints.SecurityClass),
		Pipeline: intent.Pipeline(&built.Intent, ask.Hints.Pipeline, rt.Intents.Pipeline), Why: built.Why, Refused: d.Refused, Warning: hint.Warning(&ask.Hints),
		Inferred: newInferred(ask, &built), Input: max(ask.Facts.InputTokens, 0), Output: ask.Facts.OutputTokens, serviceTier: ask.ServiceTier,
	}
	e.setReasoning(rt.Profiles.Build(&ask.Hints, &built.Intent, ask.At), ask.Facts.Effort)
	if e.Output <= 0 {
		e.Output = int64(cmp.Or(e.Profile.MaxTokens, rt.ReserveOutput))
	}
	e.Privacy = request.PrivacyOf(rt, &ask.Hints)
	e.applyFloor(rt, ask, &built, &d)
	if ask.Request != nil {
		d.Err = cmp.Or(request.WithContentPath(ask.Request, d.Err), e.checkPrivacy(rt, ask, &built, d.Order))
		d.Order = e.filterByPrice(rt, ask.Request, e.filterByContent(rt, ask.Request, d.Order))
	} else {
		d.Err = cmp.Or(d.Err, e.Privacy.CheckContent(e.contentOf(rt, ask, &built)))
	}
	if d.Err != nil {
		e.Error = publicError(d.Err)
	}
	if e.Error != "" {
		return e
	}
	planned := plan(request.ProvidersOf(d.Order))
	order := request.ByHealth(d.Order, planned)
	for i := range order {
		e.Order = append(e.Order, newCandidate(rt, &order[i], &e, &ask.Principal, state(order[i].Provider)))
	}
	e.refuseDisabled(d.Order, planned)
	if verifier := verifierOf(rt, &ask.Hints, &built.Intent, e.Order); verifier != "" {
		e.Why = append(e.Why, verifier)
	} else {
		e.setHedge(rt, ask, &built, order)
	}
	return e
}

// checkPrivacy returns the fault of a request that violates the constraints of its privacy tier.
func (e *Result) checkPrivacy(rt *runtime.Config, ask *Query, built *intent.Built, found []policy.Resolution) error {
	own := e.ownSchema(rt, built) && !wire.FormatOf(ask.Request).JSON
	return e.Privacy.Check(rt, ask.Request, found, request.HintsSearch(&ask.Hints), own || built.Schema)
}

// contentOf returns the content of a request that constraints apply to, as far as its facts show.
func (e *Result) contentOf(rt *runtime.Config, ask *Query, built *intent.Built) privacy.Content {
	f := &ask.Facts
	return privacy.Content{
		Tools: f.Tools > 0, Uploads: f.Images || f.Audio || f.Video || f.Documents, WebSearch: request.HintsSearch(&ask.Hints),
		Schema: built.Schema || e.ownSchema(rt, built),
	}
}

// ownSchema reports whether the answer follows the schema of the subsystem's profile.
func (e *Result) ownSchema(rt *runtime.Config, built *intent.Built) bool {
	return (len(e.Profile.Schema) > 0 || e.Profile.SchemaName != "") && rt.Structured.Enabled && built.PrivacyTier != policy.PrivacyEndToEnd
}

// setReasoning sets the parameters and the reasoning of the answer: of the profile, if there is one. The effort of the client's own parameters
// overrides the profile's, unless that is locked.
func (e *Result) setReasoning(d *profile.Decision, effort policy.Effort) {
	if d != nil {
		e.Profile, e.Reasoning = d.Applied, d.Reasoning
	}
	if effort == policy.EffortUnset || d != nil && d.Locked {
		return
	}
	e.Reasoning.Depth = effort
	if effort == policy.EffortNone {
		e.Reasoning = profile.Reasoning{Depth: effort}
	}
}

func newCandidate(rt *runtime.Config, to *policy.Resolution, e *Result, who *policy.Principal, state string) Candidate {
	output := e.Output
	if to.MaxOutput > 0 {
		output = min(output, int64(to.MaxOutput))
	}
	in, _ := to.Prices.InTier(e.serviceTier)
	cost := resolve.WorstCost([]policy.Resolution{{Prices: in.Uncached()}}, e.Input, output, 1)
	return Candidate{
		Provider: to.Provider, Model: to.Model, Upstream: to.Upstream, State: state, Features: to.Features, Degraded: to.Degraded,
		Score: to.Score, ProviderCost: int64(cost), Cost: int64(cost.Charge(rt.Spread(who))), PriceKnown: to.Prices.Known, Direct: rt.Resolver.Direct(to.Provider), Why: to.Why, Terms: to.Terms,
	}
}

// refuseDisabled adds disabled providers to the rejected ones.
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

// publicError returns a fault as a client gets it.
func publicError(err error) string {
	f := fault.From(err)
	return f.CodeString() + ": " + f.Public
}
