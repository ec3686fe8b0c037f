package extproc

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/endpoint"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/replay"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/resolve"
)

// authRequest is the request as verifiers see it.
func (x *exchange) authRequest() auth.Request {
	return auth.Request{Header: x.Head.Header, Client: x.Head.Peer}
}

// authenticate finds the caller. A credential that is present is checked, even where none is required.
func (x *exchange) authenticate(ctx context.Context) (policy.Principal, error) {
	p, ok, err := x.gw.Verifier.Verify(ctx, x.authRequest())
	if err != nil || ok {
		return p, err
	}
	if x.Config.Keyless == runtime.KeylessNobody || !x.Head.Peer.IsLoopback() {
		return policy.Principal{}, auth.Missing(x.Head.Header)
	}
	if why := x.Config.Known.Refuses(x.Head.Origin()); why != "" {
		return policy.Principal{}, fault.Newf(fault.InvalidAPIKey, "a request without an API key is taken from programs on this machine alone, and %s: "+
			"send a key, or name the gateway localhost, 127.0.0.1 or as in listen.public_url", why)
	}
	return policy.Principal{Anonymous: true}, nil
}

// limit checks what the caller's key may do, its rate, its concurrent requests, and limits that are exhausted already. What depends on the request's
// body is checked by allot.
func (x *exchange) limit(ctx context.Context, e *endpoint.Endpoint) (err error) {
	if e.Class == endpoint.Generate {
		if err := auth.MayGenerate(x.Principal); err != nil {
			return err
		}
	}
	if e.Local == nil && !e.Stored {
		if x.dry, err = x.explains(); err != nil {
			return err
		}
	}
	ask := quota.Ask{Client: x.Head.Peer, Class: x.counts(e), MayBeFree: e.Stored || x.MayBeFree()}
	if err := x.bill.Admit(ctx, &ask); err != nil {
		return err
	}
	if ask.Class == quota.Lookup || ask.MayBeFree || !x.Principal.Prepaid {
		return nil
	}
	return x.bill.Payer().Admit(ctx)
}

// counts is the request's class for rate limits: explained requests, and those that generate nothing, are lookups.
func (x *exchange) counts(e *endpoint.Endpoint) quota.Class {
	if e.Class != endpoint.Generate || e.Method != http.MethodPost || x.dry {
		return quota.Lookup
	}
	return quota.Generation
}

// worst is the highest possible charge of the request: the most expensive candidate, the whole output, for each validation retry, and what layers had
// made of calls.
func (x *exchange) worst(candidates []policy.Resolution) policy.Micro {
	return x.worstBeside(candidates, 0)
}

// toReserve is what is reserved for the request: its highest charge, or what was reserved with a side call, which is never less.
func (x *exchange) toReserve() policy.Micro { return max(x.worst(x.Order), x.sideHeld) }

// worstBeside is the highest possible charge of the request with one more side call, which costs so much at most.
func (x *exchange) worstBeside(candidates []policy.Resolution, side policy.Pico) policy.Micro {
	output, candidates := policy.AddTokens(int64(x.MaxTokens()), int64(x.ThinkingTokens(candidates))), x.WithoutWindows(x.WithTierPrices(candidates))
	output = policy.AddTokens(output, wire.MaxPredictedTokens(x.Request))
	more := policy.AddTokens(output, review.CorrectionTokens)
	if x.Rounds() > 0 {
		more = policy.AddTokens(more, roundTokens)
	}
	var cost policy.Pico
	for again := range 1 + x.review.MaxSchemaRetries(candidates) + x.Rounds() { // each retry and each round sends the answers before it as input
		input := policy.AddTokens(x.Request.MaxInput+x.review.SchemaTokens(candidates), policy.TimesTokens(more, int64(again)))
		cost = cost.Plus(resolve.WorstCost(candidates, input, output, int64(x.Request.Choices)), x.SearchCost(candidates))
	}
	if wire.Compacts(&x.Request.Doc) {
		cost = cost.Plus(cost)
	}
	cost = cost.Plus(x.review.MaxSideCost(), x.bill.SideCost(), side)
	return cost.Charge(x.Config.Spread(x.Principal.Tier))
}

// allot checks a generation of so many input tokens and of so high a charge against the key's limits, and counts it.
func (x *exchange) allot(ctx context.Context, tokens int64, charge policy.Micro) error {
	return x.bill.Hold(ctx, &quota.Ask{Client: x.Head.Peer, Class: quota.Generation, Tokens: tokens, Charge: charge})
}

// afford checks the request's highest cost against the key's limits and reserves it. No limit of money, tokens or budgets applies to a user's own key
// (P-13): where that is the first candidate's, the candidates that the caller cannot pay for here are left out.
func (x *exchange) afford(ctx context.Context) error {
	if x.ownKeysPay(x.Order) {
		return x.holdNothing(ctx)
	}
	err := x.allot(ctx, x.safeTokens(x.Order), x.toReserve())
	if err == nil {
		err = x.reserve(ctx)
	}
	if !isMoneyFault(err) || !x.CallerPays(x.Order[0].Provider) {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(x.Order), func(to policy.Resolution) bool { return !x.CallerPays(to.Provider) })
	if !x.ownKeysPay(own) {
		return err
	}
	x.Order = own
	return x.holdNothing(ctx)
}

// holdNothing reserves nothing, so that the answer can state the key's balance. It fails for a blocked key, which is ignored.
func (x *exchange) holdNothing(ctx context.Context) error {
	if err := x.bill.Reserve(ctx, 0); err != nil && !isMoneyFault(err) {
		return err
	}
	return nil
}

// isMoneyFault reports whether an error refuses a caller for lack of money or budget.
func isMoneyFault(err error) bool {
	f, ok := errors.AsType[*fault.Fault](err)
	return ok && slices.Contains(moneyFaults, f.Kind)
}

// moneyFaults are the refusals for lack of money or budget.
var moneyFaults = []fault.Kind{fault.InsufficientFunds, fault.PaymentRequired, fault.BudgetExceeded, fault.AllowanceExhausted}

// ownKeysPay reports whether the caller pays all candidates itself, and no side calls are made at others.
func (x *exchange) ownKeysPay(candidates []policy.Resolution) bool {
	return len(candidates) > 0 && x.review.MaxSideCost() == 0 && x.sideHeld == 0 && !slices.ContainsFunc(candidates, func(to policy.Resolution) bool { return !x.CallerPays(to.Provider) })
}

// reserve reserves the highest possible charge of the agent's budget and of the key's balance, if it has one.
func (x *exchange) reserve(ctx context.Context) error {
	if err := x.gw.Ledger.Writable(); err != nil && !x.onlyFree() {
		return err
	}
	if err := x.spend(ctx); err != nil {
		return err
	}
	if err := x.holdSession(ctx, x.toReserve()); err != nil {
		return err
	}
	if err := x.bill.Reserve(ctx, x.toReserve()); err != nil {
		return err
	}
	x.limitOutput()
	return nil
}

// onlyFree keeps the free candidates only, and reports whether the request can be served by them: while the ledger cannot be written, nothing can be
// charged.
func (x *exchange) onlyFree() bool {
	if !x.IsFree(&x.Order[0]) || x.review.MaxSideCost() > 0 {
		return false
	}
	x.Order = slices.DeleteFunc(slices.Clone(x.Order), func(to policy.Resolution) bool { return !x.IsFree(&to) })
	return true
}

// parseHeaders reads hints and options from the headers. Errors there are returned before the body is read.
func (x *exchange) parseHeaders() (err error) {
	if x.fast, err = replay.ParseFast(x.Head.Header.Get(replay.Header)); err != nil {
		return err
	}
	if err := x.parseReasoning(); err != nil {
		return err
	}
	if err := x.ParseOwnKey(); err != nil {
		return err
	}
	if err := x.parseDefer(); err != nil {
		return err
	}
	x.HeaderHints, err = hint.FromHeaders(x.Head.Header, &x.Hints)
	return err
}

// lostUnlimited is what X-Bardo-Degraded says of a request without a limit for its answer, which got the one that was reserved.
const lostUnlimited = "max_tokens"

// limitOutput sets the maximum length of an answer to what is reserved, where a prepaid key pays and neither client nor profile set one. Without that,
// an answer may cost many times its reservation.
func (x *exchange) limitOutput() {
	if !x.Principal.Prepaid || x.Request.Op != chat.Generate || !slices.ContainsFunc(x.Order, x.UnlimitedOutput) {
		return
	}
	limit := func(r *chat.Request) {
		if r == nil || r.MaxTokens > 0 || r.Dialect == chat.Completions && !r.Doc.Get("max_tokens").IsNull() || r.Profile != nil && r.Profile.MaxTokens > 0 {
			return
		}
		var p chat.Profile
		if r.Profile != nil {
			p = *r.Profile
		}
		p.MaxTokens = x.Config.ReserveOutput
		r.Profile, r.Dropped = &p, wire.AppendDegraded(slices.Clip(r.Dropped), lostUnlimited)
	}
	limit(x.Request)
	limit(x.Request.Turn)
	if e := x.review.Escalation; e != nil {
		limit(e.Request)
	}
}
