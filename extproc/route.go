package extproc

import (
	"context"
	"slices"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// route finds the candidates and runs the layers. For a request that needs a call of its own, it also checks the limits and makes the reservation; a
// coalesced request waits without a reservation, and a stored answer needs none.
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
	if !x.SkipsLayers() && !x.Verbatim() {
		if err := x.Config.Pipeline.Request(ctx, &x.Exchange); err != nil {
			return err
		}
	}
	if err := x.CheckKeyless(); err != nil {
		return err
	}
	switch x.joinCoalesced(); {
	case x.Answer != nil:
		return x.allot(ctx, 0, 0)
	case x.trace.Cache == record.CacheCoalesced:
		return x.allot(ctx, x.Request.InputTokens, x.worst(x.Found))
	}
	if err := x.order(); err != nil {
		return err
	}
	x.review.ChooseVerifier(x.byHealth)
	x.tellRoute()
	if x.IsTokenCount() {
		return nil
	}
	return x.afford(ctx)
}

// decide derives the request's intent, its candidates, best first, and its profile. Where the gateway chooses the model, it is the first
// candidate's from here on.
func (x *exchange) decide(ctx context.Context) error {
	f := hint.Facts(x.Request, int64(x.Request.MaxTokens))
	built := x.Config.Needs(&x.Hints, &f, &x.Principal)
	x.turn = x.gw.turnOf(x.Request, &x.Hints, &x.Principal, &built)
	built.Stay(x.gw.conversations.Find(&x.turn))
	d := x.Config.Resolver.Decide(&built.Intent)
	if d.Err != nil {
		return request.WithContentPath(x.Request, d.Err)
	}
	x.Found, x.Intent, x.ClientModel = d.Order, built.Intent, x.Request.Model
	x.Profile = intent.Pipeline(&x.Intent, x.Hints.Pipeline, x.Config.Intents.Pipeline)
	if err := x.FilterByOperation(); err != nil {
		return err
	}
	if err := x.FilterByNeeds(); err != nil {
		return err
	}
	if err := x.FilterByContent(); err != nil {
		return err
	}
	if err := x.FilterByPayer(); err != nil {
		return err
	}
	if err := x.FilterByStored(ctx, x.gw.Ledger.KeptOf); err != nil {
		return err
	}
	if err := x.FilterByPrice(); err != nil {
		return err
	}
	if x.Intent.Model == "" {
		x.Request.Model = string(x.Found[0].Model)
	}
	x.ApplyProfile(&x.Intent)
	x.FilterBySearchPrice()
	x.holdSearch()
	if err := x.review.FindSchema(); err != nil {
		return err
	}
	x.review.PlanVerification()
	x.review.PlanEscalation()
	return nil
}

// offers reports whether the provider of a stored answer is still a candidate, with the same model and name: the configuration may have changed
// since.
func (x *exchange) offers(s *cache.Served) bool {
	is := func(r policy.Resolution) bool {
		return r.Provider == s.By.Provider && r.Model == s.By.Model && r.Upstream == s.By.Upstream
	}
	return slices.ContainsFunc(x.Found, is) || slices.ContainsFunc(x.instead(), is)
}

// instead are the models whose answers may replace the candidates': the verifier and the better tier.
func (x *exchange) instead() (list []policy.Resolution) {
	if x.review.Verifies() {
		list = append(list, x.review.Verification.Verifier)
	}
	if x.review.Escalates() {
		list = append(list, x.review.Escalation.Candidates...)
	}
	return list
}

// order puts the candidates in the order in which they are called.
func (x *exchange) order() error {
	if x.Order = x.demoteQuarantined(x.inOrder(x.Found)); len(x.Order) == 0 {
		return fault.Newf(fault.NoProvider, "every provider of this model is disabled")
	}
	return nil
}

// inOrder sorts the candidates by health and leaves out those that an operator disabled. Among equally healthy ones, the provider whose prompt cache
// has the conversation comes first, if it serves the first candidate's model.
func (x *exchange) inOrder(found []policy.Resolution) []policy.Resolution {
	found = x.WarmFirst(found)
	order, done := x.gw.Health.Plan(request.ProvidersOf(found))
	x.endProbation = done
	return request.ByHealth(found, order)
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
	Mode      string           `json:"mode"` // full: all requested features are available; degraded
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

// nameVenice is the kind of provider whose reasoning has an event of its own.
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
	if u.Cached > 0 {
		x.gw.Events.Emit(eventCacheStats, x.Principal.Account, cacheStats{x.ID, x.Hints.Subsystem, u.Cached, u.TotalInput(), x.bill.CacheSaved()})
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

// turnOf identifies a turn of a conversation whose model the gateway chooses; the zero value for any other request.
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

// stay remembers which candidate served the turn.
func (x *exchange) stay(by *policy.Resolution) {
	if !slices.ContainsFunc(x.Found, func(r policy.Resolution) bool { return r.Provider == by.Provider && r.Model == by.Model }) || x.gw == nil {
		return
	}
	x.gw.conversations.Keep(&x.turn, policy.Kept{Provider: by.Provider, Model: by.Model, Quality: x.Intent.Quality, Tokens: x.Request.InputTokens})
}
