package extproc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/resolve"
)

// authenticate finds out who asks. A credential that is present decides, even where none is needed.
func (x *exchange) authenticate(ctx context.Context) (policy.Principal, error) {
	p, ok, err := x.gw.Verifier.Verify(ctx, auth.Request{Header: x.head.Header, Client: x.head.Peer})
	if err != nil || ok {
		return p, err
	}
	if x.rt.Keyless == KeylessNobody || !x.head.Peer.IsLoopback() {
		return policy.Principal{}, auth.Missing(x.head.Header)
	}
	if why := x.rt.Known.Refuses(x.head.Origin()); why != "" {
		return policy.Principal{}, fault.Newf(fault.InvalidAPIKey, "a request without an API key is taken from programs on this machine alone, and %s: "+
			"send a key, or name the gateway localhost, 127.0.0.1 or as in listen.public_url", why)
	}
	return policy.Principal{Anonymous: true}, nil
}

// limit holds a caller to what its key may do, and the request to its limits: the rate, the requests at a time, and what is used up
// already. What depends on the request itself is held later.
func (x *exchange) limit(ctx context.Context, e *endpoint) (err error) {
	if e.class == classGenerate {
		if err := auth.MayGenerate(x.Principal); err != nil {
			return err
		}
	}
	if e.local == nil && !e.kept {
		if x.dry, err = x.explains(); err != nil {
			return err
		}
	}
	ask := quota.Ask{Client: x.head.Peer, Class: x.counts(e), MayBeFree: e.kept || x.mayBeFree()}
	if err := x.bill.Admit(ctx, &ask); err != nil {
		return err
	}
	if ask.Class == quota.Lookup || ask.MayBeFree || !x.Principal.Prepaid {
		return nil
	}
	return unpaid(x.gw.Ledger.Solvent(ctx, x.Principal.Account))
}

// counts is the class that the request counts as: one that is only explained is a lookup, and so is what makes nothing.
func (x *exchange) counts(e *endpoint) quota.Class {
	if e.class != classGenerate || e.method != http.MethodPost || x.dry {
		return quota.Lookup
	}
	return quota.Generation
}

// mayBeFree reports whether the request may turn out to cost its caller nothing here.
func (x *exchange) mayBeFree() bool {
	return x.rt.Free[x.Principal.Tier] || x.rt.TakesKeys && x.head.Header.Get(headerUpstreamKey) != ""
}

// mayUse refuses what a caller without a key may not have: only the demo provider is free.
func (x *exchange) mayUse() error {
	if !x.Principal.Anonymous || x.rt.Keyless == KeylessAnyone {
		return nil
	}
	for _, to := range x.Found {
		if !x.rt.Providers[to.Provider].Free {
			return auth.Missing(x.head.Header)
		}
	}
	return nil
}

// worst is the most that a request may be charged: the dearest candidate, the whole output, each time that it may be asked.
func (x *exchange) worst(candidates []policy.Resolution) policy.Micro {
	output, candidates := policy.AddTokens(int64(x.maxTokens()), int64(x.raised(candidates))), x.windowless(x.inTier(candidates))
	output = policy.AddTokens(output, wire.MostPredictedTokens(x.Request))
	var cost policy.Pico
	for again := range 1 + x.mayReask(candidates) { // each time, the model reads what it said before
		input := policy.AddTokens(x.Request.MostInput+x.formTokens(candidates), policy.TimesTokens(policy.AddTokens(output, complaintTokens), int64(again)))
		cost = cost.Plus(resolve.WorstCost(candidates, input, output, int64(x.Request.Choices)), x.searching(candidates))
	}
	if wire.Compacts(&x.Request.Doc) {
		cost = cost.Plus(cost)
	}
	cost = cost.Plus(x.besides())
	return cost.Charge(x.rt.spread(x.Principal.Tier))
}

// allot holds a generation to what its key may use and be charged.
func (x *exchange) allot(ctx context.Context, tokens int64, charge policy.Micro) error {
	return x.bill.Hold(ctx, &quota.Ask{Client: x.head.Peer, Class: quota.Generation, Tokens: tokens, Charge: charge})
}

// afford holds the request to what its key may use and spend. No limit of money, tokens or budgets stands before a user's own key (P-13):
// where one is the first choice, those behind it that the caller cannot pay for here are left out.
func (x *exchange) afford(ctx context.Context) error {
	if x.ownKeysPay(x.Order) {
		return x.holdNothing(ctx)
	}
	err := x.allot(ctx, x.Request.InputTokens, x.worst(x.Order))
	if err == nil {
		err = x.reserve(ctx)
	}
	if !isMoneyFault(err) || !x.direct(x.Order[0].Provider) {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(x.Order), func(to policy.Resolution) bool { return !x.direct(to.Provider) })
	if !x.ownKeysPay(own) {
		return err
	}
	x.Order = own
	return x.holdNothing(ctx)
}

// holdNothing lets the answer say what its key's balance is, where that can be: a blocked key holds not even nothing.
func (x *exchange) holdNothing(ctx context.Context) error {
	if err := unpaid(x.bill.Reserve(ctx, 0)); err != nil && !isMoneyFault(err) {
		return err
	}
	return nil
}

// isMoneyFault reports whether an error refuses a caller who can pay for no more here.
func isMoneyFault(err error) bool {
	f, ok := errors.AsType[*fault.Fault](err)
	return ok && slices.Contains(moneyFaults, f.Kind)
}

// moneyFaults are the refusals of callers who can pay for no more here.
var moneyFaults = []fault.Kind{fault.InsufficientFunds, fault.BudgetExceeded, fault.AllowanceExhausted}

// ownKeysPay reports whether the caller pays all candidates itself, and nothing besides is asked of others.
func (x *exchange) ownKeysPay(candidates []policy.Resolution) bool {
	return len(candidates) > 0 && x.besides() == 0 && !slices.ContainsFunc(candidates, func(to policy.Resolution) bool { return !x.direct(to.Provider) })
}

// reserve sets the worst case aside: of the agent's budget, and of the key's balance. Keys without a balance reserve nothing of one.
func (x *exchange) reserve(ctx context.Context) error {
	if err := x.gw.Ledger.Writable(); err != nil && !x.onlyFree() {
		return err
	}
	if err := x.spend(ctx); err != nil {
		return err
	}
	if err := unpaid(x.bill.Reserve(ctx, x.worst(x.Order))); err != nil {
		return err
	}
	x.limitOutput()
	return nil
}

// onlyFree leaves those candidates alone that cost nobody here anything, and reports whether the request can do with them: while the
// ledger cannot be written nobody can be charged.
func (x *exchange) onlyFree() bool {
	if !x.free(&x.Order[0]) || x.besides() > 0 {
		return false
	}
	x.Order = slices.DeleteFunc(slices.Clone(x.Order), func(to policy.Resolution) bool { return !x.free(&to) })
	return true
}

// unpaid tells a caller that its key cannot pay, and how much is missing.
func unpaid(err error) error {
	if errors.Is(err, ledger.ErrAmount) {
		return fault.New(fault.InsufficientFunds, "this request may cost more than any balance holds: lower max_tokens or n", err)
	}
	var short *ledger.InsufficientError
	if !errors.As(err, &short) {
		return err
	}
	if short.Blocked {
		return fault.New(fault.InsufficientFunds, "this key is blocked until a deposit: its last answer cost more than it had", err)
	}
	if short.Needed == 0 {
		return fault.New(fault.InsufficientFunds, "nothing is left of this key's balance: deposit", err)
	}
	return fault.New(fault.InsufficientFunds, fmt.Sprintf("this request may cost up to $%s and $%s is available: deposit, or lower max_tokens",
		short.Needed, max(short.Available, 0)), err)
}
