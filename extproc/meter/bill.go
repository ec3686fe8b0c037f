package meter

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/spend"
)

// Request is what a bill needs to know about its request.
type Request interface {
	// Terms returns the terms on which the request calls a candidate.
	Terms(to *policy.Resolution) Terms
	// InputTokens returns an estimate of the input. It is billed if the provider reports none.
	InputTokens() int64
	// Subsystem returns the component of an agent that sends the request; "" if it is not stated.
	Subsystem() string
	// MaxCallTokens returns the maximum number of tokens that one call of a candidate can use: its window and the maximum output.
	MaxCallTokens(to *policy.Resolution) int64
}

// Call is one call on a bill.
type Call struct {
	To    policy.Resolution
	Usage chat.Usage
	Cost  policy.Pico // provider cost
	Side  string      // the layer that made a side call; "" for the request's own calls
}

// Bill holds one request's share of its caller's limits and money, and what it owes. The zero value holds and owes nothing. A request may make
// several calls: each is billed at its own provider's prices, and the sum is charged once. Not safe for concurrent use.
type Bill struct {
	meter     *Meter
	request   Request
	requestID string
	principal policy.Principal
	spread    int // percentage added to provider cost

	grant     quota.Grant
	shared    spend.Hold
	accepted  bool // admission, and the count of the input, were done when the request was accepted
	exempt    bool // no budget limits the request; its charge still counts
	payer     Payer
	search    searchHold
	Allowance Allowance    // of its agent's daily budget
	reserved  policy.Micro // the amount reserved, or that would be reserved with a balance

	calls     []Call
	open      inFlight
	first     rule.Usage // the highest possible usage at the first candidate, with quotas
	estimated bool       // a call was interrupted: the charge is an estimate, limited to the reservation
	settled   bool
}

// inFlight is a call in progress.
type inFlight struct {
	to    *policy.Resolution // nil for none
	since time.Time
}

// Open initialises the bill of a request, before admission.
func (b *Bill) Open(m *Meter, r Request, requestID string) {
	b.meter, b.request, b.requestID = m, r, requestID
	b.payer = m.PayerOf(&b.principal)
}

// PaidBy sets the payer of a principal's request, and the spread in percent of provider cost. It charges and reserves nothing.
func (b *Bill) PaidBy(p policy.Principal, payer Payer, spread int) {
	b.principal, b.payer, b.spread = p, payer, spread
}

// Payer returns the payer.
func (b *Bill) Payer() Payer { return b.payer }

// SetPriority exempts a critical request from budgets; of any other request's payer it retains an amount of the balance for critical requests (0 for
// none).
func (b *Bill) SetPriority(exempt bool, retained policy.Micro) {
	b.exempt = exempt
	if p, ok := b.payer.(*prepaid); ok {
		p.retained = retained
	}
}

// Admit counts the request against its caller's limits, or returns the fault of quota.Limiter. Call it before the body is read; Hold checks usage and
// cost.
func (b *Bill) Admit(ctx context.Context, ask *quota.Request) (err error) {
	ask.Principal, ask.Exempt = b.principal, b.exempt
	if err := b.admitShared(ctx, ask); err != nil {
		return err
	}
	b.grant, err = b.meter.Limiter.Admit(ctx, time.Now(), ask)
	return b.named(err)
}

// named adds the key's id to the error of its own daily limit; other limits have none.
func (b *Bill) named(err error) error {
	if over, ok := errors.AsType[*policy.OverBudget](err); ok && over.ID == "" {
		over.ID = string(b.principal.Account)
	}
	return err
}

// Hold reserves the request's maximum usage and cost from the caller's limits, or returns a fault as Admit does.
func (b *Bill) Hold(ctx context.Context, ask *quota.Request) error {
	ask.Principal, ask.Exempt = b.principal, b.exempt
	b.reserved = ask.Charge
	if len(ask.Usage) > 0 {
		b.first = ask.Usage[0]
	}
	if err := b.holdShared(ctx, ask.Charge); err != nil {
		return err
	}
	return b.named(b.meter.Limiter.Hold(ctx, time.Now(), ask, &b.grant))
}

// Standing returns the state of the caller's hourly allowance and rate limit, as of the admission or the charge.
func (b *Bill) Standing() quota.Standing { return b.grant.Standing }

// LookUpStanding reads the state of a known caller's hourly allowance, for a request that was refused before its limits were checked.
func (b *Bill) LookUpStanding(client netip.Addr) {
	s := &b.grant.Standing
	if s.TokensPerHour > 0 || s.RequestsPerMinute > 0 {
		return
	}
	if now := b.meter.Limiter.Standing(time.Now(), b.principal, client); now.TokensPerHour > 0 {
		s.TokensPerHour, s.RemainingTokens, s.Reset = now.TokensPerHour, now.RemainingTokens, now.Reset
	}
}

// Reserve reserves the request's maximum cost with its payer, or returns the payer's fault.
func (b *Bill) Reserve(ctx context.Context, amount policy.Micro) error {
	b.reserved = amount
	return b.payer.Reserve(ctx, b.requestID, amount)
}

// Extend adds an amount to what Reserve reserved, for a call that is made beside the request's own. If it is not covered, nothing is changed, and it
// returns an error, which is not a fault. A payer of single requests pays for no such call.
func (b *Bill) Extend(ctx context.Context, more policy.Micro) error {
	switch p := b.payer.(type) {
	case postpaid:
		return nil
	case *prepaid:
		return p.extend(ctx, more)
	}
	return errNotExtended
}

// errNotExtended is a reservation of a fixed amount.
var errNotExtended = errors.New("the payer pays a fixed amount")

// MaxCharge returns the amount that is reserved, or would be reserved with a balance.
func (b *Bill) MaxCharge() policy.Micro { return b.reserved }

// ReserveNow is Reserve without blocking. False means that nothing has changed and Reserve must be called. A later Reserve of the same amount keeps
// the reservation.
func (b *Bill) ReserveNow(amount policy.Micro) bool { return b.payer.ReserveNow(b.requestID, amount) }

// Immediate reports whether admission, reservation and charge most likely do not block.
func (b *Bill) Immediate(ask *quota.Request) bool {
	ask.Principal = b.principal
	return b.payer.Immediate() && b.sharedImmediate() && b.meter.Limiter.Immediate(time.Now(), ask)
}

// Held returns the amount reserved from a balance.
func (b *Bill) Held() policy.Micro {
	if !b.principal.Prepaid {
		return 0
	}
	return b.reserved
}

// Reserved reports whether a charge is within the reservation, so that Settle need not reserve more.
func (b *Bill) Reserved(charge policy.Micro) bool {
	return !b.principal.Prepaid || charge <= b.reserved
}

// Exceeds reports whether the generation must stop: with what the call in progress has used so far, the request costs more than its payer allows.
// usage is only called for a payer with a limit.
func (b *Bill) Exceeds(to *policy.Resolution, usage func() chat.Usage) bool {
	maxCost, ok := b.payer.Limit()
	if !ok {
		return false
	}
	u := usage()
	return b.With(to, &u).Charged > maxCost
}

// Begin records that a call was sent: from here on the request owes at least its input, unless the call fails. The resolution is kept and must not be
// changed.
func (b *Bill) Begin(to *policy.Resolution, at time.Time) { b.open = inFlight{to: to, since: at} }

// EndCall clears the call in progress: it was billed, or it failed and is not billed.
func (b *Bill) EndCall() { b.open = inFlight{} }

// InFlight returns the call in progress, and when it was sent; nil if there is none.
func (b *Bill) InFlight() (to *policy.Resolution, since time.Time) { return b.open.to, b.open.since }

// Add adds a call to the bill. Usage beyond what the call can have used is cut off (D-87); capped is true then.
func (b *Bill) Add(to *policy.Resolution, u chat.Usage) (capped bool) {
	_, capped = b.add(b.request, "", to, u)
	return capped
}

func (b *Bill) add(r Request, side string, to *policy.Resolution, u chat.Usage) (c *Call, capped bool) {
	terms, tokens := r.Terms(to), r.MaxCallTokens(to)
	capped = limit(&u, tokens)
	cost := terms.Cost(to, &u)
	if maxCost := terms.maxCost(to, &u, tokens); cost > maxCost {
		cost, capped = maxCost, true
	}
	b.estimated = b.estimated || u.Estimated && !u.Final && side != Hedge
	b.calls = append(b.calls, Call{To: *to, Usage: u, Cost: cost, Side: side})
	return &b.calls[len(b.calls)-1], capped
}

// AddPriced adds a call with a given cost, for calls that are not billed by a conversation's tokens.
func (b *Bill) AddPriced(to *policy.Resolution, u chat.Usage, cost policy.Pico) {
	b.estimated = b.estimated || u.Estimated
	b.calls = append(b.calls, Call{To: *to, Usage: u, Cost: cost})
}

// Interrupted returns the usage of a call of a candidate, sent at since, that ends now (D-81): its input, reported or estimated, and the part of the
// answer that arrived; c is nil if nothing did. If the model may have reasoned invisibly and the provider did not report how much, reasoning is
// estimated from the elapsed time and the model's speed.
func (b *Bill) Interrupted(to *policy.Resolution, c *Count, since time.Time) chat.Usage {
	return b.interrupted(b.request, to, c, since)
}

func (b *Bill) interrupted(r Request, to *policy.Resolution, c *Count, since time.Time) chat.Usage {
	if c == nil {
		c = &Count{}
	}
	u := c.interrupted(r.InputTokens())
	if u.Final || u.Reasoning > 0 || !r.Terms(to).Thinks {
		return u
	}
	until := c.First
	if until.IsZero() {
		until = time.Now()
	}
	n := b.meter.written(to, until.Sub(since))
	if to.MaxOutput > 0 {
		n = min(n, int64(to.MaxOutput))
	}
	u.Output, u.Reasoning = add(u.Output, n), n
	u.Estimated, u.ReasoningEstimated = true, true
	return u
}

// Calls returns the calls on the bill.
func (b *Bill) Calls() []Call { return b.calls }

// Total is the sum of the calls on the bill.
type Total struct {
	Usage   chat.Usage
	Cost    policy.Pico  // provider cost
	Charged policy.Micro // provider cost and spread
	Staked  policy.Micro // paid from staked credit, at the provider's prices
}

// Total sums the calls on the bill.
func (b *Bill) Total() Total { return b.With(nil, nil) }

// With returns the total with one more call: usage u of a candidate; nil for none.
func (b *Bill) With(to *policy.Resolution, u *chat.Usage) Total { return b.sum(to, u, true) }

// sum is With, with or without side calls.
func (b *Bill) sum(to *policy.Resolution, u *chat.Usage, sides bool) (t Total) {
	var staked policy.Pico
	take := func(to *policy.Resolution, u *chat.Usage, cost policy.Pico) {
		t.Usage, t.Cost = Sum(*u, t.Usage), t.Cost.Plus(cost)
		if to.Staked != nil {
			staked = staked.Plus(costAt(to.Staked, u))
		}
	}
	for i := range b.calls {
		if c := &b.calls[i]; sides || c.Side == "" {
			take(&c.To, &c.Usage, c.Cost)
		}
	}
	if to != nil {
		take(to, u, b.request.Terms(to).Cost(to, u))
	}
	t.Charged, t.Staked = t.Cost.Charge(b.spread), staked.Charge(0)
	if b.estimated {
		t.Charged = min(t.Charged, b.reserved)
	}
	return t
}

// CacheSaved returns what the providers' prompt caches saved on the bill's calls, without the spread. It is negative if writing to them cost more.
func (b *Bill) CacheSaved() policy.Pico {
	var paid, plain policy.Pico
	for i := range b.calls {
		c := &b.calls[i]
		with, without := b.request.Terms(&c.To).inputCosts(&c.To, &c.Usage)
		paid, plain = paid.Plus(with), plain.Plus(without)
	}
	return plain - paid // both are non-negative
}

// Settle charges the total of the calls and releases the rest of the reservation. It returns when the charge is durable (prepaid keys) or queued
// (others), so that the last byte of an answer can be sent. Cancelling the context does not undo it. It fills in request, account and amounts. Only
// the first call charges.
func (b *Bill) Settle(ctx context.Context, t *Total, c ledger.Charge) (ledger.Receipt, error) {
	if b.settled {
		return ledger.Receipt{Repeated: true}, nil
	}
	b.settled = true
	c.RequestID, c.Account, c.Amount, c.ProviderCost, c.Staked = b.requestID, b.principal.Account, t.Charged, t.Cost, t.Staked
	r, err := b.payer.Settle(context.WithoutCancel(ctx), c, len(b.calls) > 0)
	if err != nil {
		return r, err
	}
	b.count(t)
	b.Allowance.done(r.Charged)
	return r, nil
}

// count counts the request's usage against its caller's limits.
func (b *Bill) count(t *Total) {
	b.countShared(t.Charged)
	b.countQuotas(t.Charged)
	used := add(t.Usage.TotalInput(), t.Usage.Output)
	if !b.accepted {
		b.grant.Done(time.Now(), used, t.Charged)
		return
	}
	used = max(used-b.request.InputTokens(), t.Usage.Output)
	b.grant.Standing = b.meter.Limiter.Count(time.Now(), &b.principal, netip.Addr{}, used, t.Charged)
}

// Release releases what the request still holds of its caller's limits and money.
func (b *Bill) Release() {
	if b.meter == nil {
		return
	}
	b.grant.Done(time.Now(), 0, 0)
	b.shared.Done(time.Now(), 0)
	b.Allowance.done(0)
	b.settleSearch()
	b.payer.Release()
}
