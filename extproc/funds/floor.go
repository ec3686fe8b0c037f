package funds

import (
	"context"
	"errors"
	"strings"

	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/resolve"
)

// floor is why a free model serves a request instead of the one that a wallet's earnings would pay for.
type floor struct {
	requested policy.ModelID
	reason    *fault.Fault
}

// Decide lists the candidates for the request's intent, best first. If the wallet that pays for the request is empty (B-20), and the operator has
// enabled it, they are the free models, if one may serve it. Requests paid from a balance, or that pay for themselves, keep their candidates.
func (f *Funds) Decide(in *policy.Intent) resolve.Decision {
	d := f.Config.Resolver.Decide(in)
	if d.Unfunded == "" || !f.Config.Cheaper.Free || f.Principal.Prepaid || intent.Critical(f.Hints.Subsystem) {
		return d
	}
	if _, pays := f.Bill.Payer().(meter.PerRequest); pays {
		return d
	}
	free := f.FreeReplacements(in, d.Order)
	if len(free) == 0 {
		return d
	}
	f.floor = &floor{named(in), fault.Newf(fault.InsufficientFunds, "the credit at %s is used up", d.Unfunded)}
	d.Order, d.Err = free, nil
	return d
}

// BalanceEmpty reports whether the caller's balance is empty. A balance that cannot be read counts as not empty.
func (f *Funds) BalanceEmpty(ctx context.Context) bool {
	return f.Principal.Prepaid && errors.As(f.Ledger.Solvent(ctx, f.Principal.Account), new(*ledger.InsufficientError))
}

// named returns the model that an intent names, in the form for a header's list.
func named(in *policy.Intent) policy.ModelID {
	unsafe := func(r rune) bool { return r <= ' ' || r == ',' || r > '~' }
	if in.Model == "" || strings.ContainsFunc(in.Model, unsafe) {
		return "auto"
	}
	return policy.ModelID(in.Model)
}
