package extproc

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/resolve"
)

// Dry is a request that is only looked at.
type Dry struct {
	Hints     policy.Hints
	Facts     intent.Facts
	Principal policy.Principal
	At        time.Time // of schedules
	Service   string    // the tier of service that it asks for; "" for the usual one

	Stays func(*intent.Built) policy.Kept // where its conversation is served; may be nil

	Request *chat.Request // what it holds; nil: nothing is known of it
}

// Explanation is what would be done with a request, and why.
type Explanation struct {
	Order     []Place
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

	tier string // of service
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
	i := &Inferred{Task: b.Task.Name, Difficulty: rounded(b.Task.Difficulty), Quality: b.Quality.String(), Expected: b.Expected, Points: slices.Clone(b.Task.Points())}
	for k := range i.Points {
		i.Points[k].Worth = rounded(i.Points[k].Worth)
	}
	if b.Kept.Model != "" {
		i.Stays = string(b.Kept.Provider) + "/" + string(b.Kept.Model)
	}
	return i
}

// Place is one way to serve a request.
type Place struct {
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

// Explain says what would be done with a request. Nothing is sent to anyone, counted or charged.
func (g *Gateway) Explain(ask *Dry) Explanation {
	plan := func(ids []policy.ProviderID) []policy.ProviderID {
		order, done := g.Health.Plan(ids)
		done()
		return order
	}
	return g.runtime.Load().Explain(ask, plan, g.Health.State)
}

// Explain says what would be done with a request, for a plan that orders providers by their health and leaves out those that an
// operator disabled, and for what is known of that health.
func (rt *Runtime) Explain(ask *Dry, plan func([]policy.ProviderID) []policy.ProviderID, state func(policy.ProviderID) string) Explanation {
	built := rt.needs(&ask.Hints, &ask.Facts, &ask.Principal)
	if ask.Stays != nil {
		built.Stay(ask.Stays(&built))
	}
	d := rt.Resolver.Explain(&built.Intent)
	e := Explanation{
		Pipeline: intent.Pipeline(&built.Intent, ask.Hints.Pipeline, rt.Intents.Pipeline), Why: built.Why, Refused: d.Refused, Warning: hint.Warning(&ask.Hints),
		Inferred: newInferred(&built), Input: max(ask.Facts.InputTokens, 0), Output: ask.Facts.OutputTokens, tier: ask.Service,
	}
	if e.Output <= 0 {
		e.Output = int64(rt.ReserveOutput)
	}
	e.think(rt.Profiles.Build(&ask.Hints, &built.Intent, ask.At), ask.Facts.Effort)
	if ask.Request != nil {
		d.Err = placed(ask.Request, d.Err)
		d.Order = e.meetPrices(rt, ask.Request, e.meetContent(rt, ask.Request, d.Order))
	}
	if d.Err != nil {
		e.Error = publicError(d.Err)
	}
	if e.Error != "" {
		return e
	}
	order := plan(providersOf(d.Order))
	for _, to := range wellFirst(d.Order, order) {
		e.Order = append(e.Order, rt.place(&to, &e, ask.Principal.Tier, state(to.Provider)))
	}
	e.leaveOut(d.Order, order)
	if second := rt.secondOf(&ask.Hints, &built.Intent, e.Order); second != "" {
		e.Why = append(e.Why, second)
	}
	return e
}

// think notes how the answer is made and thought about, by its profile, if it has one, and by the effort that the client's own
// parameters say, which stands over it unless it is locked.
func (e *Explanation) think(d *profile.Decision, said policy.Effort) {
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

// needs says what a request needs. The part of an agent that asks has an effort of its own, where the request says none.
func (rt *Runtime) needs(h *policy.Hints, f *intent.Facts, who *policy.Principal) intent.Built {
	built := intent.Build(h, f, who, &rt.Intents)
	row := profile.RowOf(h.Subsystem)
	if row != nil && row.Locked || h.Subsystem != "" && built.Effort == policy.EffortUnsaid {
		built.Effort = profile.EffortFor(h, built.Security)
	}
	return built
}

func (rt *Runtime) place(to *policy.Resolution, e *Explanation, tier policy.Tier, state string) Place {
	output := e.Output
	if to.MaxOutput > 0 {
		output = min(output, int64(to.MaxOutput))
	}
	in, _ := to.Prices.InTier(e.tier)
	cost := resolve.WorstCost([]policy.Resolution{{Prices: in.Uncached()}}, e.Input, output, 1)
	return Place{
		Provider: to.Provider, Model: to.Model, Upstream: to.Upstream, State: state, Features: to.Features, Degraded: to.Degraded,
		Score: to.Score, ProviderCost: int64(cost), Cost: int64(cost.Charge(rt.spread(tier))), PriceKnown: to.Prices.Known, Direct: rt.Resolver.Direct(to.Provider), Why: to.Why, Terms: to.Terms,
	}
}

// leaveOut refuses the providers that an operator disabled.
func (e *Explanation) leaveOut(found []policy.Resolution, order []policy.ProviderID) {
	var disabled []resolve.Refusal
	for _, id := range providersOf(found) {
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

// providersOf are the providers of an order, each once.
func providersOf(found []policy.Resolution) []policy.ProviderID {
	ids := make([]policy.ProviderID, 0, len(found))
	for i := range found {
		if !slices.Contains(ids, found[i].Provider) {
			ids = append(ids, found[i].Provider)
		}
	}
	return ids
}

// wellFirst is found by the health of its providers: order has those of found that may be asked, the ones that work first. What works
// keeps its place among its like, also where a provider stands several times; a provider that another one has overtaken comes last.
func wellFirst(found []policy.Resolution, order []policy.ProviderID) []policy.Resolution {
	ids := providersOf(found)
	if slices.Equal(ids, order) {
		return found
	}
	out := make([]policy.Resolution, 0, len(found))
	for i := range found {
		if at := slices.Index(order, found[i].Provider); at >= 0 && !overtaken(ids, order, at) {
			out = append(out, found[i])
		}
	}
	for at, id := range order {
		for i := range found {
			if found[i].Provider == id && overtaken(ids, order, at) {
				out = append(out, found[i])
			}
		}
	}
	return out
}

// overtaken reports whether a provider stands behind one in order that stood behind it in ids.
func overtaken(ids, order []policy.ProviderID, at int) bool {
	was := slices.Index(ids, order[at])
	return slices.ContainsFunc(order[:at], func(id policy.ProviderID) bool { return slices.Index(ids, id) > was })
}

// headerRoute asks for an explanation in place of an answer.
const headerRoute = "x-bardo-route"

// explains reports whether the request only asks what would be done with it.
func (x *exchange) explains() (bool, error) {
	switch said := x.head.Header.Get(headerRoute); {
	case said == "":
		return false, nil
	case strings.EqualFold(said, "explain"):
		return true, nil
	default:
		return false, fault.Newf(fault.InvalidRequest, "X-Bardo-Route: expected explain, not %q", fault.Clip(said))
	}
}

// explain answers what would be done with the request. It counts as a lookup: nobody is asked, and nothing is charged.
func (x *exchange) explain(d stream.Client) error {
	x.operation = telemetry.Explain
	_, tier := x.tierAsked()
	e := x.gw.Explain(&Dry{
		Hints: x.Hints, Facts: hint.Facts(x.Request, int64(x.Request.MaxTokens)), Principal: x.Principal, At: x.started, Service: tier,
		Request: x.Request,
		Stays: func(built *intent.Built) policy.Kept {
			turn := x.gw.turnOf(x.Request, &x.Hints, &x.Principal, built)
			return x.gw.conversations.Find(&turn)
		},
	})
	r := stream.Reply{Status: http.StatusOK, Header: append(x.idHeaders(), header.Field{Name: "content-type", Value: header.JSON}), Body: e.JSON()}
	if strings.HasPrefix(x.head.Header.Get("accept"), "text/plain") {
		r.Header[len(r.Header)-1].Value = "text/plain; charset=utf-8"
		r.Body = []byte(e.Text())
	}
	r.Header = x.warning(r.Header)
	return x.reply(d, r)
}
