package extproc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/resolve"
)

// authenticate finds out who asks. A credential that is present decides, even where none is needed.
func (x *exchange) authenticate(ctx context.Context) (policy.Principal, error) {
	p, ok, err := x.gw.Verifier.Verify(ctx, auth.Request{Header: x.head.h, Client: x.head.peer})
	if err != nil || ok {
		return p, err
	}
	switch x.rt.Keyless {
	case KeylessAnyone:
		return policy.Principal{Anonymous: true}, nil
	case KeylessDemo:
		if x.head.fromLoopback() {
			return policy.Principal{Anonymous: true}, nil
		}
	case KeylessNobody:
	}
	return policy.Principal{}, auth.Missing(x.head.h)
}

// limit holds a caller to what its key may do, and lookups to their rate. Generations are counted once their size is known.
func (x *exchange) limit(ctx context.Context, c class) error {
	if c == classGenerate {
		return auth.MayGenerate(x.Principal)
	}
	_, err := x.gw.Limiter.Admit(ctx, time.Now(), &quota.Ask{Principal: x.Principal, Client: x.head.peer, Class: quota.Lookup})
	return err
}

// mayUse refuses what a caller without a key may not have: only the demo provider is free.
func (x *exchange) mayUse() error {
	if !x.Principal.Anonymous || x.rt.Keyless == KeylessAnyone {
		return nil
	}
	for _, to := range x.Found {
		if !x.rt.Providers[to.Provider].Free {
			return auth.Missing(x.head.h)
		}
	}
	return nil
}

// worst is the most that a request may be charged: the dearest candidate, the whole output, each time that it may be asked.
func (x *exchange) worst(candidates []policy.Resolution) policy.Micro {
	output, candidates := int64(x.maxTokens()+x.raised(candidates)), x.inTier(candidates)
	var cost policy.Pico
	for again := range 1 + x.mayReask(candidates) { // each time, the model reads what it said before
		input := x.Request.InputTokens + x.formTokens(candidates) + int64(again)*(output+complaintTokens)
		cost += resolve.WorstCost(candidates, input, output, int64(x.Request.Choices))
	}
	cost += x.besides()
	return cost.Charge(x.rt.spread(x.Principal.Tier))
}

// enter holds a generation to its key's limits: the requests at a time and per minute, and what it may use and be charged.
func (x *exchange) enter(ctx context.Context, tokens int64, charge policy.Micro) (err error) {
	ask := quota.Ask{Principal: x.Principal, Client: x.head.peer, Class: quota.Generation, Tokens: tokens, Charge: charge}
	x.grant, err = x.gw.Limiter.Admit(ctx, time.Now(), &ask)
	return err
}

// reserve sets the worst case aside: of the agent's budget, and of the key's balance. Keys without a balance reserve nothing of one.
func (x *exchange) reserve(ctx context.Context) (err error) {
	if err := x.spend(ctx); err != nil {
		return err
	}
	if !x.Principal.Prepaid {
		return nil
	}
	x.hold, err = x.gw.Ledger.Reserve(ctx, x.Principal.Account, x.ID, x.worst(x.Order))
	return unpaid(err)
}

// unpaid tells a caller that its key cannot pay, and how much is missing.
func unpaid(err error) error {
	var short *ledger.InsufficientError
	if !errors.As(err, &short) {
		return err
	}
	if short.Blocked {
		return fault.New(fault.InsufficientFunds, "this key is blocked until a deposit: its last answer cost more than it had", err)
	}
	return fault.New(fault.InsufficientFunds, fmt.Sprintf("this request may cost up to $%s and $%s is available: deposit, or lower max_tokens",
		short.Needed, max(short.Available, 0)), err)
}
