package extproc

import (
	"context"
	"errors"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/resolve"
)

// An agent that states its daily budget has it divided among its subsystems. Without one there is no limit, but the spending of each is still
// recorded.

// keepToBudget finds what the request may spend, where its caller states a daily budget. Heartbeats of tier T2 are routed as T1 once their budget is
// spent, unless the answer is free.
func (x *exchange) keepToBudget(ctx context.Context) error {
	part := budget.PartOf(x.Hints.Subsystem)
	if x.Hints.DailyBudget <= 0 || part == budget.None || x.Request.Op != chat.Generate {
		return nil
	}
	vitality, ok := intent.VitalityOf(&x.Hints)
	if !ok {
		vitality = 1
	}
	b := &x.bill.Allowance
	b.Part, b.Limits = part, budget.Compute(vitality, x.Config.Wallet.Daily(x.Hints.DailyBudget)).Under(x.Config.Wallet)
	use, err := x.gw.meter.Budgets.Look(ctx, x.Started, x.Agent(), part)
	if err != nil {
		return err
	}
	d := b.Limits.Decide(x.Hints.Subsystem, use, x.Started)
	if b.Left = d.Remaining; d.Action != budget.Downgrade || x.FirstIsFree() {
		return nil
	}
	x.report.Exhausted(&d, use)
	x.Hints.Subsystem, b.Degraded = budget.Routine, d.Degraded
	return nil
}

// spend reserves the request's highest cost in its subsystem's budget, or refuses the request once that is spent. A request whose first candidate is
// free is served by the free ones.
func (x *exchange) spend(ctx context.Context) error {
	b := &x.bill.Allowance
	if b.Part == budget.None {
		return nil
	}
	d, use, err := b.Enter(ctx, x.gw.meter, x.Started, x.Agent(), x.Hints.Subsystem, x.worst(x.Order))
	if err != nil || d.Action != budget.Refuse {
		return err
	}
	if x.IsFree(&x.Order[0]) {
		x.Order = slices.DeleteFunc(slices.Clone(x.Order), func(to policy.Resolution) bool { return !x.IsFree(&to) })
		return nil
	}
	x.report.Exhausted(&d, use)
	b.Degraded = d.Degraded
	f := fault.Newf(fault.BudgetExceeded, "%s", d.Sentence(b.Part, b.Limits[b.Part]))
	f.RetryAfter = d.Again
	return f
}

// affordsMore reports whether the budget of a subsystem has room for a call that the gateway makes on its behalf.
func (x *exchange) affordsMore(ctx context.Context, subsystem string) bool {
	b := &x.bill.Allowance
	if b.Part == budget.None {
		return true
	}
	use, err := x.gw.meter.Budgets.Look(ctx, x.Started, x.Agent(), budget.PartOf(subsystem))
	if err != nil {
		return false
	}
	d := b.Limits.Decide(subsystem, use, x.Started)
	return d.Action == budget.Serve
}

// keepToStake stops the use of staked credit once the day's is used up. Its use is counted for all callers, and known a few seconds later.
func (x *exchange) keepToStake(ctx context.Context) error {
	if !x.Hints.DIEMAvailable || x.Config.Stake <= 0 || x.Request.Op != chat.Generate {
		return nil
	}
	use, err := x.gw.meter.Budgets.Look(ctx, x.Started, budget.Agent{}, budget.Stake)
	if err != nil || use.Spent < x.Config.Stake {
		return err
	}
	x.Hints.DIEMAvailable = false
	x.Request.Dropped = wire.AppendDegraded(slices.Clip(x.Request.Dropped), lostStake)
	return nil
}

// lostStake is what X-Bardo-Degraded says once staked credit is used up.
const lostStake = "diem_available"

// What the searches of the web of a dream cycle may cost (I-10). A dream beyond it is dreamt without.

// partDream is the subsystem whose searches have a budget.
const partDream = "dream"

// holdSearch sets the price of the request's search aside. It is for where the gateway itself asks for the search: what a client asks for in
// its provider's words is the client's.
func (x *exchange) holdSearch() {
	if !request.WantsSearch(x.Request) || intent.Root(x.Hints.Subsystem) != partDream {
		return
	}
	var cost policy.Pico
	for i := range x.Found {
		cost = max(cost, x.Found[i].Prices.PerSearch.Times(x.MaxSearches(&x.Found[i])))
	}
	cycle := budget.Cycle{Agent: budget.Agent{Account: x.Principal.Account, ID: x.Hints.GolemID}, ID: x.Hints.DreamCycleID}
	if cycle.ID == "" { // an agent that names no cycle has one a day
		cycle.ID = x.Started.UTC().Format("2006-01-02")
	}
	if amount := cost.Charge(0); amount > 0 && !x.bill.HoldSearch(&x.gw.searches, cycle, amount, x.Config.SearchBudget) {
		x.NoSearch = true
	}
}

// worst is the highest possible charge of the request: the most expensive candidate, the whole output, for each validation retry, and what layers had
// made of calls.
func (x *exchange) worst(candidates []policy.Resolution) policy.Micro {
	return x.worstBeside(candidates, 0)
}

// worstBeside is the highest possible charge of the request with one more side call, which costs so much at most.
func (x *exchange) worstBeside(candidates []policy.Resolution, side policy.Pico) policy.Micro {
	return x.worstCost(candidates, side).Charge(x.Config.Spread(x.Principal.Tier))
}

// worstCost is the highest possible cost at the providers, likewise.
func (x *exchange) worstCost(candidates []policy.Resolution, side policy.Pico) policy.Pico {
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
	return cost.Plus(x.review.MaxSideCost(), x.bill.SideCost(), side)
}

// toReserve is what is reserved for the request: its highest charge, or what was reserved with a side call, which is never less.
func (x *exchange) toReserve() policy.Micro { return max(x.worst(x.Order), x.sideHeld) }

// ownKeysPay reports whether the caller pays all candidates itself, and no side calls are made at others.
func (x *exchange) ownKeysPay(candidates []policy.Resolution) bool {
	return len(candidates) > 0 && x.review.MaxSideCost() == 0 && x.sideHeld == 0 && !slices.ContainsFunc(candidates, func(to policy.Resolution) bool { return !x.CallerPays(to.Provider) })
}

// allot checks a generation of so many input tokens and of so high a charge against the key's limits, and counts it.
func (x *exchange) allot(ctx context.Context, tokens int64, charge policy.Micro) error {
	return x.bill.Hold(ctx, &quota.Ask{Client: x.Head.Peer, Class: quota.Generation, Tokens: tokens, Charge: charge})
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

// roundTokens bounds what one round adds to the prompt besides the answer, in tokens.
const roundTokens = pipeline.MaxRoundResults / 2

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

// lostUnlimited is what X-Bardo-Degraded says of a request without a limit for its answer, which got the one that was reserved.
const lostUnlimited = "max_tokens"

// safeTokens is the estimate of a request that is set aside from its key's allowance: not below that of any candidate's model, nor below the uncorrected one.
func (x *exchange) safeTokens(candidates []policy.Resolution) int64 {
	n := x.Request.InputTokens
	for i := range candidates {
		n = max(n, x.gw.meter.AtLeast(candidates[i].Model, x.Request.InputTokens))
	}
	return n
}
