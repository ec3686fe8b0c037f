package funds

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
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/resolve"
)

// A stated daily budget of an agent is divided among its subsystems. Without one there is no limit, but the spending of each subsystem is
// still recorded.

// KeepToBudget determines what the request may spend, if its caller states a daily budget. Heartbeats of tier T2 are routed as T1 once their budget
// is spent, unless the answer is free.
func (f *Funds) KeepToBudget(ctx context.Context) error {
	f.MarkCritical(f.Hints.Subsystem)
	part := budget.PartOf(f.Hints.Subsystem)
	if f.Hints.DailyBudget <= 0 || part == budget.None || f.Request.Op != chat.Generate {
		return nil
	}
	vitality, ok := intent.VitalityOf(&f.Hints)
	if !ok {
		vitality = 1
	}
	b := &f.Bill.Allowance
	b.Part, b.Limits = part, budget.Compute(vitality, f.Config.Wallet.Daily(f.Hints.DailyBudget)).ScaledBy(f.Config.Wallet)
	use, err := f.Meter.Budgets.Look(ctx, f.Started, f.Agent(), part)
	if err != nil {
		return err
	}
	d := b.Limits.Decide(f.Hints.Subsystem, use, f.Started)
	if b.Left = d.Remaining; d.Action != budget.Downgrade || f.FirstIsFree() {
		return nil
	}
	f.Exhausted(&d, use)
	f.Hints.Subsystem, b.Degraded = budget.Routine, d.Degraded
	return nil
}

// spend reserves the request's maximum cost from its subsystem's budget, or refuses the request once that is spent. If its first candidate is free,
// only the free ones serve it.
func (f *Funds) spend(ctx context.Context) error {
	b := &f.Bill.Allowance
	if b.Part == budget.None {
		return nil
	}
	d, use, err := b.Enter(ctx, f.Meter, f.Started, f.Agent(), f.Hints.Subsystem, f.MaxCharge(f.Order))
	if err != nil || d.Action != budget.Refuse {
		return err
	}
	if f.IsFree(&f.Order[0]) {
		f.Order = slices.DeleteFunc(slices.Clone(f.Order), func(to policy.Resolution) bool { return !f.IsFree(&to) })
		return nil
	}
	f.Exhausted(&d, use)
	b.Degraded = d.Degraded
	refused := fault.Newf(fault.BudgetExceeded, "%s", d.Sentence(b.Part, b.Limits[b.Part]))
	refused.RetryAfter = d.RetryAfter
	return refused
}

// AffordsMore reports whether a subsystem's budget covers a call that the gateway makes on its behalf.
func (f *Funds) AffordsMore(ctx context.Context, subsystem string) bool {
	b := &f.Bill.Allowance
	if b.Part == budget.None {
		return true
	}
	use, err := f.Meter.Budgets.Look(ctx, f.Started, f.Agent(), budget.PartOf(subsystem))
	if err != nil {
		return false
	}
	d := b.Limits.Decide(subsystem, use, f.Started)
	return d.Action == budget.Serve
}

// KeepToStake stops the use of staked credit once the day's is used up. Its use is summed over all callers, with a delay of a few seconds.
func (f *Funds) KeepToStake(ctx context.Context) error {
	if !f.Hints.DIEMAvailable || f.Config.Stake <= 0 || f.Request.Op != chat.Generate {
		return nil
	}
	use, err := f.Meter.Budgets.Look(ctx, f.Started, budget.Agent{}, budget.Stake)
	if err != nil || use.Spent < f.Config.Stake {
		return err
	}
	f.Hints.DIEMAvailable = false
	f.Request.Dropped = wire.AppendDegraded(slices.Clip(f.Request.Dropped), degradedStake)
	return nil
}

// degradedStake is the entry in X-Bardo-Degraded once staked credit is used up.
const degradedStake = "diem_available"

// The web search budget of a dream cycle (I-10). A dream beyond it continues without searches.

// partDream is the subsystem whose searches have a budget.
const partDream = "dream"

// HoldSearch reserves the price of the request's search, if the gateway itself adds the search. A search that the client requests in its provider's
// format is not limited.
func (f *Funds) HoldSearch() {
	if !request.WantsSearch(f.Request) || intent.Root(f.Hints.Subsystem) != partDream {
		return
	}
	var cost policy.Pico
	for i := range f.Found {
		cost = max(cost, f.Found[i].Prices.PerSearch.Times(f.MaxSearches(&f.Found[i])))
	}
	cycle := budget.Cycle{Agent: budget.Agent{Account: f.Principal.Account, ID: f.Hints.GolemID}, ID: f.Hints.DreamCycleID}
	if cycle.ID == "" { // an agent that names no cycle has one per day
		cycle.ID = f.Started.UTC().Format("2006-01-02")
	}
	if amount := cost.Charge(0); amount > 0 && !f.Bill.HoldSearch(f.Searches, cycle, amount, f.Config.SearchBudget) {
		f.NoSearch = true
	}
}

// MaxCharge returns the maximum charge of the request: the most expensive candidate, the whole output, for each validation retry, and the layers'
// side calls.
func (f *Funds) MaxCharge(candidates []policy.Resolution) policy.Micro {
	return f.maxChargeWith(candidates, 0)
}

// maxChargeWith returns the maximum charge of the request with one more side call of the given maximum cost.
func (f *Funds) maxChargeWith(candidates []policy.Resolution, side policy.Pico) policy.Micro {
	return f.MaxCost(candidates, side).Charge(f.Config.Spread(&f.Principal))
}

// MaxCost returns the maximum cost at the providers, with one more side call.
func (f *Funds) MaxCost(candidates []policy.Resolution, side policy.Pico) policy.Pico {
	calls, output, more := f.maxCalls(candidates)
	candidates = f.WithoutWindows(f.WithTierPrices(candidates))
	var cost policy.Pico
	searches := f.SearchCost(candidates)
	for again := range calls { // each retry and each round sends the earlier answers as input
		input := policy.AddTokens(f.Request.MaxInput+f.Review.SchemaTokens(candidates), policy.TimesTokens(more, int64(again)))
		cost = cost.Plus(resolve.WorstCost(candidates, input, output, int64(f.Request.Choices)), searches)
	}
	if wire.Compacts(&f.Request.Doc) {
		cost = cost.Plus(cost)
	}
	return cost.Plus(f.PaymentMargin(candidates, cost, int64(calls)), f.Review.MaxSideCost(), f.Bill.SideCost(), side)
}

// maxCalls returns how many times the request may call a candidate, the maximum output of each choice of a call in tokens, and the tokens that each call adds to
// the input of the next.
func (f *Funds) maxCalls(candidates []policy.Resolution) (calls int, output, more int64) {
	output = policy.AddTokens(policy.AddTokens(int64(f.MaxTokens()), int64(f.ThinkingTokens(candidates))), wire.MaxPredictedTokens(f.Request))
	more = policy.AddTokens(output, review.CorrectionTokens)
	if f.Rounds() > 0 {
		more = policy.AddTokens(more, roundTokens)
	}
	return 1 + f.Review.MaxSchemaRetries(candidates) + f.Rounds(), output, more
}

// ToReserve returns the amount to reserve for the request: its maximum charge, or the amount that was reserved with a side call, which is never less.
func (f *Funds) ToReserve() policy.Micro { return max(f.MaxCharge(f.Order), f.sideHeld) }

// OwnKeysPay reports whether the caller pays all candidates directly, and no side calls are made at others.
func (f *Funds) OwnKeysPay(candidates []policy.Resolution) bool {
	return len(candidates) > 0 && f.Review.MaxSideCost() == 0 && f.sideHeld == 0 && !slices.ContainsFunc(candidates, func(to policy.Resolution) bool { return !f.CallerPays(to.Provider) })
}

// Allot checks a generation of tokens input tokens and a maximum charge at some candidates against the key's limits, and counts it.
func (f *Funds) Allot(ctx context.Context, candidates []policy.Resolution, tokens int64, charge policy.Micro) error {
	return f.Bill.Hold(ctx, &quota.Request{Client: f.Head.Peer, Class: quota.Generation, Tokens: tokens, Charge: charge, Usage: f.maxUsage(candidates, tokens, charge)})
}

// AllotNothing is Allot for a request that calls no provider.
func (f *Funds) AllotNothing(ctx context.Context) error {
	return f.Bill.Hold(ctx, &quota.Request{Client: f.Head.Peer, Class: quota.Generation})
}

// maxUsage returns the highest usage of the request at each candidate that it does not pay with a key of its caller, for quotas; nil if there are none.
func (f *Funds) maxUsage(candidates []policy.Resolution, tokens int64, charge policy.Micro) (all []rule.Usage) {
	if !f.Bill.HasQuotas() {
		return nil
	}
	input, output := tokens, int64(0)
	if f.Request.Op == chat.Generate {
		calls, answer, more := f.maxCalls(candidates)
		input = 0
		for again := range calls {
			input = policy.AddTokens(input, policy.AddTokens(tokens+f.Review.SchemaTokens(candidates), policy.TimesTokens(more, int64(again))))
		}
		output = policy.TimesTokens(answer, int64(max(f.Request.Choices, 1)*calls))
	}
	for i := range candidates {
		if f.CallerPays(candidates[i].Provider) {
			continue
		}
		u := f.Bill.Usage(&candidates[i])
		u.Input, u.Output, u.CostUSD = input, output, float64(charge)/float64(policy.USD)
		all = append(all, u)
	}
	return all
}

// HoldNothing makes an empty reservation, so that the answer can state the key's balance. It fails for a blocked key, which is ignored.
func (f *Funds) HoldNothing(ctx context.Context) error {
	if err := f.Bill.Reserve(ctx, 0); err != nil && !isMoneyFault(err) {
		return err
	}
	return nil
}

// isMoneyFault reports whether an error refuses a caller for lack of money or budget.
func isMoneyFault(err error) bool {
	f, ok := errors.AsType[*fault.Fault](err)
	return ok && slices.Contains(moneyFaults, f.Kind)
}

// isQuotaFault reports whether an error refuses a request by a quota, which does not apply to a user's own key either.
func isQuotaFault(err error) bool {
	_, ok := errors.AsType[*quota.Exceeded](err)
	return ok
}

// moneyFaults are the refusals for lack of money or budget.
var moneyFaults = []fault.Kind{fault.InsufficientFunds, fault.PaymentRequired, fault.BudgetExceeded, fault.AllowanceExhausted}

// roundTokens bounds what one round adds to the prompt besides the answer, in tokens.
const roundTokens = pipeline.MaxRoundResults / 2

// affordAsked checks the request's maximum cost against the key's limits and reserves it. Limits of money, tokens and budgets do not apply to a
// user's own key (P-13): if the first candidate uses one, the candidates that the caller cannot pay for here are removed.
func (f *Funds) affordAsked(ctx context.Context) error {
	if f.OwnKeysPay(f.Order) {
		return f.HoldNothing(ctx)
	}
	most := f.ToReserve()
	err := f.Allot(ctx, f.Order, f.SafeTokens(f.Order), most)
	if err == nil {
		err = f.reserve(ctx, most)
	}
	if !isMoneyFault(err) && !isQuotaFault(err) || !f.CallerPays(f.Order[0].Provider) {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(f.Order), func(to policy.Resolution) bool { return !f.CallerPays(to.Provider) })
	if !f.OwnKeysPay(own) {
		return err
	}
	f.Order = own
	return f.HoldNothing(ctx)
}

// Reserve reserves the maximum charge from the agent's budget and the key's balance, if any.
func (f *Funds) Reserve(ctx context.Context) error { return f.reserve(ctx, f.ToReserve()) }

// reserve is Reserve with a known maximum charge.
func (f *Funds) reserve(ctx context.Context, maxCharge policy.Micro) error {
	all := len(f.Order)
	if err := f.Ledger.Writable(); err != nil && !f.onlyFree() {
		return err
	}
	if err := f.spend(ctx); err != nil {
		return err
	}
	if len(f.Order) != all { // some cannot be paid for
		maxCharge = f.ToReserve()
	}
	if err := f.HoldSession(ctx, maxCharge); err != nil {
		return err
	}
	if err := f.Bill.Reserve(ctx, maxCharge); err != nil {
		return err
	}
	f.LimitOutput()
	return nil
}

// onlyFree removes all but the free candidates, and reports whether any is left: while the ledger cannot be written, nothing can be charged.
func (f *Funds) onlyFree() bool {
	if !f.IsFree(&f.Order[0]) || f.Review.MaxSideCost() > 0 {
		return false
	}
	f.Order = slices.DeleteFunc(slices.Clone(f.Order), func(to policy.Resolution) bool { return !f.IsFree(&to) })
	return true
}

// LimitOutput limits the answer's length to the reservation, if a prepaid key pays and neither client nor profile sets a limit. Otherwise an answer
// could cost many times its reservation.
func (f *Funds) LimitOutput() {
	if !f.Principal.Prepaid || f.Request.Op != chat.Generate || !slices.ContainsFunc(f.Order, f.UnlimitedOutput) {
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
		p.MaxTokens = f.Config.ReserveOutput
		r.Profile, r.Dropped = &p, wire.AppendDegraded(slices.Clip(r.Dropped), degradedUnlimited)
	}
	limit(f.Request)
	limit(f.Request.Turn)
	if e := f.Review.Escalation; e != nil {
		limit(e.Request)
	}
}

// degradedUnlimited is the entry in X-Bardo-Degraded for a request without a limit of its own, which was limited to the reservation.
const degradedUnlimited = "max_tokens"

// SafeTokens returns the token estimate that is reserved from the key's allowance: the maximum of the uncorrected one and those of the candidates'
// models.
func (f *Funds) SafeTokens(candidates []policy.Resolution) int64 {
	n := f.Request.InputTokens
	for i := range candidates {
		n = max(n, f.Meter.AtLeast(candidates[i].Model, f.Request.InputTokens))
	}
	return n
}
