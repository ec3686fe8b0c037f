package extproc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/classifier"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// candidates finds the candidates of a request.
func (x *exchange) candidates(ctx context.Context) error {
	if err := x.funds.FindSession(ctx); err != nil {
		return err
	}
	if err := x.funds.KeepToStake(ctx); err != nil {
		return err
	}
	if err := x.funds.KeepToBudget(ctx); err != nil {
		return err
	}
	if err := x.decide(ctx); err != nil {
		return err
	}
	x.DirectKey = x.SkipsMasking()
	x.CallersKey = slices.ContainsFunc(x.Found, func(to policy.Resolution) bool { return x.CallerPays(to.Provider) })
	x.ProtectOnly = x.SkipsLayers() || x.Verbatim()
	return nil
}

// layersWait reports whether a layer may wait for anything but the client.
func (x *exchange) layersWait() bool { return x.Config.Pipeline.Waits(&x.Exchange) }

// prepare runs the layers and orders the candidates. A request that needs its own call is paid for afterwards (payAndCall); a coalesced one waits
// without a reservation, and a stored answer needs none.
func (x *exchange) prepare(ctx context.Context) error {
	if err := x.runLayers(ctx); err != nil {
		return err
	}
	if err := x.CheckKeyless(); err != nil {
		return err
	}
	switch x.joinCoalesced(); {
	case x.Answer != nil:
		return x.funds.AllotNothing(ctx)
	case x.trace.Cache == record.CacheCoalesced:
		return x.funds.Allot(ctx, x.Found, x.funds.SafeTokens(x.Found), x.funds.MaxCharge(x.Found))
	}
	if err := x.ranking.Arrange(); err != nil {
		return err
	}
	x.review.ChooseVerifier(x.ranking.RankAdditional)
	x.report.Route()
	return nil
}

// runLayers runs the layers on the request, which may change it.
func (x *exchange) runLayers(ctx context.Context) error {
	x.Current, x.Original = x.stillOffered, x.Request
	x.Market = x.gw.Answers.Enter(x.Principal.Account, x.Hints.GolemID, x.Hints.Regime)
	x.NoRounds = x.ProtectOnly || !x.mayCallTools()
	if !x.ProtectOnly {
		x.effects.Govern(x.gw.Governor)
	}
	if err := x.Config.Pipeline.Request(ctx, &x.Exchange); err != nil {
		return err
	}
	if x.Request != x.Original {
		x.review.FollowRequest()
	}
	return nil
}

// decide derives the request's intent, its candidates, best first, and its profile. If the gateway chooses the model, the request has the first
// candidate's from here on.
func (x *exchange) decide(ctx context.Context) error {
	f := hint.Facts(x.Request, int64(x.Request.MaxTokens))
	f.Reading = x.reading
	x.report.Epoch(&x.gw.epochs)
	built := x.Config.Needs(&x.Hints, &f, &x.Principal)
	x.report.Task = cmp.Or(x.Hints.TickType, x.Hints.Subsystem, built.Task.Name)
	x.outcome.Turn = x.gw.turnOf(x.Request, &x.Hints, x.conversationOwner(), &built)
	built.KeepModel(x.gw.conversations.Find(&x.outcome.Turn))
	d := x.funds.Decide(&built.Intent)
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
	if err := x.FilterByStored(ctx, x.gw.Ledger.StoredResources); err != nil {
		return err
	}
	if err := x.FilterByPrice(); err != nil {
		return err
	}
	if err := x.funds.FilterBySession(); err != nil {
		return err
	}
	if x.Intent.Model == "" {
		x.Request.Model = string(x.Found[0].Model)
	}
	if x.IsRelayed() {
		return x.CheckPrivacy(false)
	}
	x.ApplyProfile(&x.Intent)
	x.FilterBySearchPrice()
	x.funds.HoldSearch()
	if err := x.review.FindSchema(); err != nil {
		return err
	}
	if err := x.CheckPrivacy(x.review.HasSchema()); err != nil {
		return err
	}
	x.review.PlanVerification()
	x.review.PlanEscalation()
	return nil
}

// stillOffered reports whether the provider of a stored answer is still a candidate, with the same model and name: the configuration may have changed
// since.
func (x *exchange) stillOffered(s *cache.Served) bool {
	is := func(r policy.Resolution) bool {
		return r.Provider == s.By.Provider && r.Model == s.By.Model && r.Upstream == s.By.Upstream
	}
	return slices.ContainsFunc(x.Found, is) || slices.ContainsFunc(x.replacements(), is)
}

// replacements returns the models whose answers may replace the candidates': the verifier and the better tier.
func (x *exchange) replacements() (list []policy.Resolution) {
	if x.review.Verifies() {
		list = append(list, x.review.Verification.Verifier)
	}
	if x.review.Escalates() {
		list = append(list, x.review.Escalation.Candidates...)
	}
	return list
}

// turnOf identifies a turn of a conversation whose model the gateway chooses; the zero value for any other request.
func (g *Gateway) turnOf(r *chat.Request, h *policy.Hints, who policy.Account, built *intent.Built) (t conversation.Turn) {
	if built.Task.Name == "" || built.Hinted() || r == nil {
		return t
	}
	c, err := r.Conversation()
	if err != nil {
		return t
	}
	return g.conversations.Turn(who, r.Model, h.SessionID, c)
}

// mayCallTools reports whether calls of layers' own tools can be answered: there is one answer, of one model, and no provider stores it.
func (x *exchange) mayCallTools() bool {
	if _, ok := x.Dialect.(wire.Continuer); !ok || x.Request.Op != chat.Generate || x.Request.Choices > 1 || x.Request.Doc.Get("functions").Exists() {
		return false
	}
	if x.review.Verifies() || x.review.Escalation != nil || !x.AnyProvider() {
		return false
	}
	for i := range x.Found {
		if x.StoredAt(&x.Found[i]) {
			return false
		}
	}
	return true
}

// mayClassify reports whether the classifier may be used, as far as is known without the request's text.
func (x *exchange) mayClassify() bool {
	return x.Request.Op == chat.Generate && x.Config.Classifier.MayApply(&x.Hints, x.Request.Model)
}

// classify runs the classifier on the request.
func (x *exchange) classify(ctx context.Context) {
	f := hint.Facts(x.Request, int64(x.Request.MaxTokens))
	if !x.Config.Classifier.Applies(&x.Hints, &f) {
		return
	}
	began := time.Now()
	r, why := x.Config.Classifier.Classify(ctx, x.Principal.Account, f.Text)
	x.reading = r
	x.Log = append(x.Log, pipeline.Entry{Layer: classifier.Name, Began: began, Took: time.Since(began), Budget: classifier.Budget, TimedOut: why == "late", Note: classifier.Note(r, why)})
}
