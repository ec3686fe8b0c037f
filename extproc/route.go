package extproc

import (
	"context"
	"slices"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// route finds the candidates and runs the layers. A request that a provider must answer is also held to what its key may use, and its
// money is set aside; one that others are answering waits for them without its money, and a stored answer uses nothing.
func (x *exchange) route(ctx context.Context) error {
	if err := x.keepToStake(ctx); err != nil {
		return err
	}
	if err := x.keepToBudget(ctx); err != nil {
		return err
	}
	if err := x.decide(ctx); err != nil {
		return err
	}
	x.Current = x.offers
	if !x.bare() && !x.verbatim() {
		if err := x.rt.Pipeline.Request(ctx, &x.Exchange); err != nil {
			return err
		}
	}
	if err := x.mayUse(); err != nil {
		return err
	}
	switch x.join(); {
	case x.Answer != nil:
		return x.allot(ctx, 0, 0)
	case x.known == knownCoalesced:
		return x.allot(ctx, x.Request.InputTokens, x.worst(x.Found))
	}
	if err := x.order(); err != nil {
		return err
	}
	x.chooseSecond()
	x.tellRoute()
	if x.isTokenCount() {
		return nil
	}
	return x.afford(ctx)
}

// decide works out what the request needs, who could serve it, best first, and how its answer is to be made. A model that is left to the
// gateway is the first candidate's from here on.
func (x *exchange) decide(ctx context.Context) error {
	f := hint.Facts(x.Request, int64(x.Request.MaxTokens))
	built := x.rt.needs(&x.Hints, &f, &x.Principal)
	x.turn = x.gw.turnOf(x.Request, &x.Hints, &x.Principal, &built)
	built.Stay(x.gw.conversations.Find(&x.turn))
	d := x.rt.Resolver.Decide(&built.Intent)
	if d.Err != nil {
		return placed(x.Request, d.Err)
	}
	x.Found, x.Intent, x.asked = d.Order, built.Intent, x.Request.Model
	x.Profile = intent.Pipeline(&x.Intent, x.Hints.Pipeline, x.rt.Intents.Pipeline)
	if err := x.meetOperation(); err != nil {
		return err
	}
	if err := x.meetNeeds(); err != nil {
		return err
	}
	if err := x.meetContent(); err != nil {
		return err
	}
	if err := x.settleWhoPays(); err != nil {
		return err
	}
	if err := x.keepToStored(ctx); err != nil {
		return err
	}
	if err := x.meetPrices(); err != nil {
		return err
	}
	if x.Intent.Model == "" {
		x.Request.Model = string(x.Found[0].Model)
	}
	x.profile(&x.Intent)
	x.meetSearch()
	x.holdSearch()
	if err := x.findForm(); err != nil {
		return err
	}
	x.planVerification()
	x.planEscalation()
	return nil
}

// offers reports whether an answer's provider would still be asked for this model, by the same name: the configuration may have
// changed since.
func (x *exchange) offers(s *cache.Served) bool {
	is := func(r policy.Resolution) bool {
		return r.Provider == s.By.Provider && r.Model == s.By.Model && r.Upstream == s.By.Upstream
	}
	return slices.ContainsFunc(x.Found, is) || slices.ContainsFunc(x.instead(), is)
}

// instead are those whose answers may be given in the place of the candidates'.
func (x *exchange) instead() (list []policy.Resolution) {
	if x.verifies() {
		list = append(list, x.opinions.second)
	}
	if x.escalates() {
		list = append(list, x.escalation.order...)
	}
	return list
}

// requested is the model as the client wrote it.
func (x *exchange) requested() string {
	if len(x.Found) == 0 {
		return x.Request.Model
	}
	return x.asked
}

// order puts the candidates in the order in which they are asked.
func (x *exchange) order() error {
	if x.Order = x.goneLast(x.inOrder(x.Found)); len(x.Order) == 0 {
		return fault.Newf(fault.NoProvider, "every provider of this model is disabled")
	}
	return nil
}

// inOrder sorts the candidates by health and leaves out those that an operator disabled. Of those that are equally well, a provider
// that knows the conversation serves the model that comes first anyway.
func (x *exchange) inOrder(found []policy.Resolution) []policy.Resolution {
	found = x.warmFirst(found)
	order, done := x.gw.Health.Plan(providersOf(found))
	x.tried = done
	return wellFirst(found, order)
}

// warmFirst puts the provider that served the conversation before where the first one stands, if it serves the same model for no more.
func (x *exchange) warmFirst(found []policy.Resolution) []policy.Resolution {
	i := slices.IndexFunc(found, func(r policy.Resolution) bool { return r.Provider == x.Affinity.Provider })
	if i < 1 || !x.equals(x.Affinity.Provider) {
		return found
	}
	return slices.Concat(found[i:i+1], found[:i], found[i+1:])
}

// equals reports whether a provider's offer is as good as the first one.
func (x *exchange) equals(id policy.ProviderID) bool {
	first := &x.Found[0]
	for i := range x.Found {
		to := &x.Found[i]
		if to.Provider == id {
			return to.Model == first.Model && to.Private == first.Private && len(to.Degraded) <= len(first.Degraded) &&
				to.Prices.Input <= first.Prices.Input && to.Prices.Output <= first.Prices.Output
		}
	}
	return false
}

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
	Mode      string           `json:"mode"` // full: everything that was asked for is there; degraded
}

type providerFallback struct {
	RequestID string            `json:"request_id"`
	Failed    policy.ProviderID `json:"failed"`
	Fallback  policy.ProviderID `json:"fallback"`
	Reason    string            `json:"reason"`
}

// The events of answers.
const (
	eventCacheStats = "inference:cache_stats"
	eventReasoning  = "venice:reasoning_extracted"
	eventSearched   = "inference:web_search_used"
	eventVenice     = "venice:web_search"
)

// nameVenice is the adapter whose reasoning has an event of its own.
const nameVenice = "venice"

type cacheStats struct {
	RequestID string      `json:"request_id"`
	Subsystem string      `json:"subsystem"`
	Cached    int64       `json:"cached_tokens"`
	Total     int64       `json:"total_tokens"`
	Savings   policy.Pico `json:"savings_usd"` // by the provider's prices, against the same tokens uncached
}

type reasoningExtracted struct {
	RequestID string `json:"request_id"`
	Subsystem string `json:"subsystem"`
	Tokens    int64  `json:"reasoning_tokens"`
}

// webSearched tells that a provider searched the web. What it searched for is the caller's, and not told.
type webSearched struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Provider  policy.ProviderID `json:"provider"`
	Searches  int64             `json:"searches"` // at least
}

// tellAnswer reports what a provider's cache gave to an answer, that it searched the web, and that Venice showed its reasoning.
func (x *exchange) tellAnswer(a *answer, u *chat.Usage) {
	if !x.gw.Events.On() {
		return
	}
	if u.Cached > 0 {
		x.gw.Events.Emit(eventCacheStats, x.Principal.Account, cacheStats{x.ID, x.Hints.Subsystem, u.Cached, u.TotalInput(), x.bill.CacheSaved()})
	}
	venice := x.rt.Providers[a.res.Provider].Adapter.Name() == nameVenice
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

// tellRoute reports who serves the request, and what of the features that it asked for is there.
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

// tellFallback reports that another provider is asked instead of one that failed.
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

// listed is a list as JSON writes it, an empty one as such.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// turnOf is how a request is known whose model is left to the gateway, the zero value for any other.
func (g *Gateway) turnOf(r *chat.Request, h *policy.Hints, who *policy.Principal, built *intent.Built) (t conversation.Turn) {
	if built.Task.Name == "" || built.Hinted() || r == nil {
		return t
	}
	c, err := r.Conversation()
	if err != nil {
		return t
	}
	return g.conversations.Turn(who.Account, r.Model, h.SessionID, c)
}

// stay remembers who served a turn, if it was one of its candidates.
func (x *exchange) stay(by *policy.Resolution) {
	if !slices.ContainsFunc(x.Found, func(r policy.Resolution) bool { return r.Provider == by.Provider && r.Model == by.Model }) || x.gw == nil {
		return
	}
	x.gw.conversations.Keep(&x.turn, policy.Kept{Provider: by.Provider, Model: by.Model, Quality: x.Intent.Quality, Tokens: x.Request.InputTokens})
}
