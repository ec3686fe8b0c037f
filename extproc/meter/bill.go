package meter

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/spend"
)

// Request is what a bill must know of its request.
type Request interface {
	// Terms are on what terms the request calls a candidate.
	Terms(to *policy.Resolution) Terms
	// InputTokens is about how long the request is. It is billed where a provider did not say.
	InputTokens() int64
	// MostTokens is how many tokens a candidate can have used for one call: its window and the longest answer that was asked for.
	MostTokens(to *policy.Resolution) int64
}

// Call is one call of a provider on a bill.
type Call struct {
	To    policy.Resolution
	Usage chat.Usage
	Cost  policy.Pico // the provider's
	Side  string      // the layer that had it made beside the request's own calls; "" for those
}

// Bill is what one request holds of its caller's limits and money, and what it owes. The zero value holds and owes nothing. A request may
// take several calls of providers: each is paid for at its own provider's price, and the charge is all of them, once. Not safe for
// concurrent use.
type Bill struct {
	meter     *Meter
	request   Request
	requestID string
	principal policy.Principal
	spread    int // percent on the providers' cost

	grant     quota.Grant
	shared    spend.Hold
	later     bool // the request was admitted, and its input counted, when it was accepted
	exempt    bool // no budget holds the request; what it is charged counts
	payer     Payer
	search    searchHold
	Allowance Allowance    // of its agent's budget for the day
	most      policy.Micro // what was reserved, or would be of a key with a balance

	calls     []Call
	open      inFlight
	estimated bool // a call was interrupted: the charge is an estimate, and at most what was reserved
	settled   bool
}

// inFlight is a call that has gone out and of which it is not known yet what becomes of it.
type inFlight struct {
	to    *policy.Resolution // nil: there is none
	since time.Time
}

// Open makes the bill of a request. It is for before anything is admitted.
func (b *Bill) Open(m *Meter, r Request, requestID string) {
	b.meter, b.request, b.requestID = m, r, requestID
	b.payer = m.PayerOf(&b.principal)
}

// PaidBy sets who pays for a principal's request, and the spread, in percent of the providers' cost. Nothing is charged or reserved by it.
func (b *Bill) PaidBy(p policy.Principal, payer Payer, spread int) {
	b.principal, b.payer, b.spread = p, payer, spread
}

// Payer is who pays.
func (b *Bill) Payer() Payer { return b.payer }

// Critical has budgets of money not hold the request, if exempt, and else so much of its payer's balance stay for requests that are critical; 0 for nothing.
func (b *Bill) Critical(exempt bool, kept policy.Micro) {
	b.exempt = exempt
	if p, ok := b.payer.(*prepaid); ok {
		p.kept = kept
	}
}

// Admit counts the request against its caller's limits, or refuses it with the fault of quota.Limiter. It is for before the request's
// body is read: what the request uses and may cost is for Hold.
func (b *Bill) Admit(ctx context.Context, ask *quota.Ask) (err error) {
	ask.Principal, ask.Exempt = b.principal, b.exempt
	if err := b.admitShared(ctx, ask); err != nil {
		return err
	}
	b.grant, err = b.meter.Limiter.Admit(ctx, time.Now(), ask)
	return b.named(err)
}

// named puts the key's id into the error of its own daily limit, where limits are without one.
func (b *Bill) named(err error) error {
	if over, ok := errors.AsType[*policy.OverBudget](err); ok && over.ID == "" {
		over.ID = string(b.principal.Account)
	}
	return err
}

// Hold sets aside of the caller's limits what the request uses and may be charged, or refuses it likewise.
func (b *Bill) Hold(ctx context.Context, ask *quota.Ask) error {
	ask.Principal, ask.Exempt = b.principal, b.exempt
	b.most = ask.Charge
	if err := b.holdShared(ctx, ask.Charge); err != nil {
		return err
	}
	return b.named(b.meter.Limiter.Hold(ctx, time.Now(), ask, &b.grant))
}

// Standing is how the caller stands with its hourly allowance and its rate, as of the admission or the charge.
func (b *Bill) Standing() quota.Standing { return b.grant.Standing }

// LookUpStanding finds how a known caller stands with its hourly allowance, where the request was refused before its limits were checked.
func (b *Bill) LookUpStanding(client netip.Addr) {
	s := &b.grant.Standing
	if s.TokensPerHour > 0 || s.RequestsPerMinute > 0 {
		return
	}
	if now := b.meter.Limiter.Standing(time.Now(), b.principal, client); now.TokensPerHour > 0 {
		s.TokensPerHour, s.RemainingTokens, s.Reset = now.TokensPerHour, now.RemainingTokens, now.Reset
	}
}

// Reserve has the payer set aside the most that the request may cost, or refuses it with the payer's fault.
func (b *Bill) Reserve(ctx context.Context, most policy.Micro) error {
	b.most = most
	return b.payer.Reserve(ctx, b.requestID, most)
}

// ReserveNow is Reserve without waiting. Where it is false, nothing has changed, and Reserve decides. Reserve of the same amount keeps it.
func (b *Bill) ReserveNow(most policy.Micro) bool { return b.payer.ReserveNow(b.requestID, most) }

// Immediate reports whether admission, reservation and charge most likely wait for nothing.
func (b *Bill) Immediate(ask *quota.Ask) bool {
	ask.Principal = b.principal
	return b.payer.Immediate() && b.sharedImmediate() && b.meter.Limiter.Immediate(time.Now(), ask)
}

// Held is what was reserved of a balance.
func (b *Bill) Held() policy.Micro {
	if !b.principal.Prepaid {
		return 0
	}
	return b.most
}

// Reserved reports whether a charge is at most what was reserved, so that Settle need not find more.
func (b *Bill) Reserved(charge policy.Micro) bool { return !b.principal.Prepaid || charge <= b.most }

// Exceeds reports whether the generation must stop: with what a call of a candidate under way has used so far, the request costs more than
// its payer allows. usage is only called for a payer that has a limit.
func (b *Bill) Exceeds(to *policy.Resolution, usage func() chat.Usage) bool {
	most, ok := b.payer.Limit()
	if !ok {
		return false
	}
	u := usage()
	return b.With(to, &u).Charged > most
}

// Begin notes that a call went out: from here on the request owes at least its input, unless the call fails. The resolution is kept, and not to be changed.
func (b *Bill) Begin(to *policy.Resolution, at time.Time) { b.open = inFlight{to: to, since: at} }

// Over notes that the call under way is over: it was put on the bill, or it failed, and nobody pays for it.
func (b *Bill) Over() { b.open = inFlight{} }

// InFlight is the call under way, and when it went out; nil if there is none.
func (b *Bill) InFlight() (to *policy.Resolution, since time.Time) { return b.open.to, b.open.since }

// Add puts a call on the bill. What its provider cannot have used is not believed (D-87): capped is true then.
func (b *Bill) Add(to *policy.Resolution, u chat.Usage) (capped bool) {
	_, capped = b.add(b.request, "", to, u)
	return capped
}

func (b *Bill) add(r Request, side string, to *policy.Resolution, u chat.Usage) (c *Call, capped bool) {
	terms, tokens := r.Terms(to), r.MostTokens(to)
	capped = limit(&u, tokens)
	cost := terms.Cost(to, &u)
	if most := terms.mostCost(to, &u, tokens); cost > most {
		cost, capped = most, true
	}
	b.estimated = b.estimated || u.Estimated && !u.Final
	b.calls = append(b.calls, Call{To: *to, Usage: u, Cost: cost, Side: side})
	return &b.calls[len(b.calls)-1], capped
}

// AddPriced puts a call on the bill that is not billed by the tokens of a conversation: who asked for it knows what it costs.
func (b *Bill) AddPriced(to *policy.Resolution, u chat.Usage, cost policy.Pico) {
	b.estimated = b.estimated || u.Estimated
	b.calls = append(b.calls, Call{To: *to, Usage: u, Cost: cost})
}

// Interrupted is what a call of a candidate that went out at some time took, if it ends now (D-81): its input, reported or estimated, and
// what came of the answer; c is nil where nothing came. Where the model may have reasoned without showing it, and its provider did not say
// how much, that is estimated from the time that it had and from the model's speed.
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

// Calls are those on the bill.
func (b *Bill) Calls() []Call { return b.calls }

// Total is what the calls on the bill took together.
type Total struct {
	Usage   chat.Usage
	Cost    policy.Pico  // the providers'
	Charged policy.Micro // with the spread
	Staked  policy.Micro // what staked credit paid for, at its provider's prices
}

// Total sums the calls on the bill.
func (b *Bill) Total() Total { return b.With(nil, nil) }

// With is the total if one more call were on the bill, the usage u of a candidate; nil for none.
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
		t.Charged = min(t.Charged, b.most)
	}
	return t
}

// CacheSaved is what the providers' own caches saved on the calls of the bill, without the spread. It is below zero where writing to them
// cost more.
func (b *Bill) CacheSaved() policy.Pico {
	var paid, plain policy.Pico
	for i := range b.calls {
		c := &b.calls[i]
		with, without := b.request.Terms(&c.To).inputCosts(&c.To, &c.Usage)
		paid, plain = paid.Plus(with), plain.Plus(without)
	}
	return plain - paid // neither is below zero
}

// Settle charges what the calls on the bill come to, and gives back what was reserved beyond that. It returns when the charge is durable
// (prepaid keys) or queued (others), so that the last byte of an answer may go out. The end of the context does not undo it. The request,
// the account and the amounts are filled in here. Only the first call charges.
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

// count counts what the request used against its caller's limits.
func (b *Bill) count(t *Total) {
	b.countShared(t.Charged)
	used := add(t.Usage.TotalInput(), t.Usage.Output)
	if !b.later {
		b.grant.Done(time.Now(), used, t.Charged)
		return
	}
	if len(b.calls) > 0 {
		used = max(used-b.request.InputTokens(), t.Usage.Output)
	}
	b.grant.Standing = b.meter.Limiter.Count(time.Now(), &b.principal, netip.Addr{}, used, t.Charged)
}

// Release gives back what the request still holds of its caller's limits and money.
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
