package extproc

import (
	"context"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// A heartbeat of tier T1 may say that it is not good enough. Then tier T2 is asked the same, once, and its answer is given.

// Escalation are the operator's rules for heartbeats. The zero value is: only those that ask for it.
type Escalation struct {
	On    bool
	Floor float64 // a decision less confident than this asks for a better model, 0 to 1
}

// headerEscalated says that a better model answered than the one that was asked first.
const headerEscalated = "x-bardo-escalated"

// checkEscalate marks questions that may be answered by a better model than they ask for.
const checkEscalate = "escalate"

// The tiers of heartbeats.
const (
	tier1 = "heartbeat_t1"
	tier2 = "heartbeat_t2"
)

// escalation is how a request is asked at tier T2, should it come to that.
type escalation struct {
	order   []policy.Resolution
	request *chat.Request // with the profile of that tier
	reason  structured.Escalation
	from    policy.Resolution // whose answer was not given; no provider while that is open
}

// planEscalation finds out whether the request may be answered by tier T2, and how that is asked. What keeps a request from some
// providers keeps this one from them, too; what an agent's life does not allow, it does not get. It is a second call that the gateway
// makes by itself: no user's own key pays for it, nor does the operator's account where the first call was on a user's own key.
func (x *exchange) planEscalation() {
	if x.Hints.Subsystem != tier1 || !x.mayEscalate() || x.Request.Op != chat.Generate || x.verbatim() || x.verifies() || x.formName() == "" || !x.verifiable() || x.direct(x.Found[0].Provider) {
		return
	}
	h := x.Hints
	h.Subsystem, h.Quality = tier2, policy.QualityUnsaid // the class was said for the first tier
	f := hint.Facts(x.Request, int64(x.Request.MaxTokens))
	f.Model, f.Provider = "", ""
	if !x.Request.SaysThinking() { // then the profile of tier T1 did
		f.Effort = policy.EffortUnsaid
	}
	built := x.rt.needs(&h, &f, &x.Principal)
	if built.Quality <= x.Intent.Quality {
		return
	}
	built.Provider = x.pinnedTo()
	d := x.rt.Resolver.Decide(&built.Intent)
	order := slices.DeleteFunc(d.Order, func(to policy.Resolution) bool {
		return x.direct(to.Provider) || !x.mayAsk(to.Provider) || x.rt.unsupported(x.Request, &to) != nil || !x.affordable(&to) ||
			resolve.Weaker(&x.Intent, &x.Found[0], &to) || to.Model == x.Found[0].Model
	})
	if len(order) == 0 {
		return
	}
	x.escalation = &escalation{order: order, request: x.atTier2(&h, &built.Intent, &order[0])}
	x.Request.Check = checkEscalate
}

// mayEscalate reports whether the request says, or else the operator, that tier T2 may answer it.
func (x *exchange) mayEscalate() bool {
	if x.Hints.Escalate != nil {
		return *x.Hints.Escalate
	}
	return x.rt.Escalation.On
}

// atTier2 is the client's request under the profile of tier T2.
func (x *exchange) atTier2(h *policy.Hints, in *policy.Intent, first *policy.Resolution) *chat.Request {
	r := *x.Request
	if !r.SaysThinking() { // then the profile of tier T1 did
		r.Thinking, r.HighEffort = false, false
	}
	if x.Intent.Model == "" {
		r.Model = string(first.Model)
	}
	r.Profile = nil
	if d := x.rt.Profiles.Build(h, in, x.started); d != nil {
		r.Profile = d.Profile
		for _, name := range d.Ignored {
			r.Lost = wire.Named(slices.Clip(r.Lost), name)
		}
		if x.form != nil {
			r.Profile.Default.SchemaName = x.Request.Profile.Default.SchemaName
		}
		deliberate(&r)
	}
	return &r
}

// escalates reports whether tier T2 may be asked.
func (x *exchange) escalates() bool { return x.escalation != nil && len(x.escalation.order) > 0 }

// escalate asks tier T2 where a good answer of tier T1 says that it should be asked, and returns the answer that goes out; nil when the
// client left. Where T2 fails, the answer of T1 stands.
func (s *drivenStream) escalate(ctx context.Context, a *answer, j *judgement) (*answer, *judgement) {
	x, e := s.x, s.x.escalation
	if j.open || x.direct(a.res.Provider) {
		return a, j
	}
	e.reason = structured.Escalates(x.formName(), j.text(), x.rt.Escalation.Floor)
	if e.reason == structured.Stays || !x.affordsMore(ctx, tier2) {
		return a, j
	}
	switch b, jb, err := s.askTier2(ctx, a); {
	case err != nil:
		return nil, nil
	case b != nil:
		return b, jb
	}
	a.unfit = true // another request may have more luck
	return a, j
}

// lift has tier T2 answer where T1 gave nothing good, if the form's default says that T2 is to be asked. ok is false where it does not, or
// T2 fails.
func (s *drivenStream) lift(ctx context.Context, a *answer) (ok bool, err error) {
	x := s.x
	if !x.escalates() || x.direct(a.res.Provider) || structured.Escalates(x.formName(), x.form.Default(), 0) == structured.Stays || !x.affordsMore(ctx, tier2) {
		return false, nil
	}
	x.escalation.reason = structured.SaysSo
	b, j, err := s.askTier2(ctx, a)
	if b == nil || err != nil {
		return false, err
	}
	b.release(ctx, x.shown(b, j))
	if b.failure() != nil {
		return false, nil
	}
	return true, s.send(ctx, b)
}

// askTier2 asks tier T2 in the place of an answer of T1, which is paid for; nil where T2 fails. The error is that the client left.
func (s *drivenStream) askTier2(ctx context.Context, a *answer) (*answer, *judgement, error) {
	x := s.x
	if !a.counted {
		x.charge(a)
		x.answered(a, record.OK)
	}
	x.current = a
	back := x.ask(x.escalation.request)
	b, j, err := s.tryTier2(ctx)
	if b == nil || err != nil {
		back()
		return nil, nil, err
	}
	x.escalation.from = a.res
	x.giveInstead(nil, b, j)
	x.tellEscalated(&b.res)
	return b, j, nil
}

// ask makes another request the one that calls are made of. back undoes that.
func (x *exchange) ask(r *chat.Request) (back func()) {
	x.encodeMu.Lock()
	defer x.encodeMu.Unlock()
	before, plans := x.Request, x.plans
	x.Request, x.plans = r, nil
	return func() {
		x.encodeMu.Lock()
		defer x.encodeMu.Unlock()
		x.Request, x.plans = before, plans
	}
}

// tryTier2 asks the candidates of tier T2 until one gives a good answer; nil where none does. The error is that the client left.
func (s *drivenStream) tryTier2(ctx context.Context) (*answer, *judgement, error) {
	x := s.x
	var say []chat.Message
	order, reasked := x.well(x.escalation.order), 0
	for i, calls := 0, 0; i < len(order) && calls <= x.rt.MaxRetries; calls++ {
		b, j, f, err := s.opinion(ctx, order[i], say)
		switch {
		case err != nil:
			return nil, nil, err
		case f != nil:
			again, ok := x.without(order[i], f)
			d := upstream.Next(&upstream.State{
				Failure: f, Failures: calls + 1, MaxRetries: x.rt.MaxRetries, Candidates: len(order), Left: len(order) - 1 - i, Amendable: ok, Once: true,
			})
			x.sideFailed(&sideFailure{order[i], f, d})
			switch d.Move { //nolint:exhaustive // the next candidate is below
			case upstream.Amend:
				order[i] = again
				continue
			case upstream.Stop:
				return nil, nil, nil
			}
		case j != nil && x.passes(j):
			return b, j, nil
		case j != nil && reasked < x.retries() && !j.declines:
			reasked++
			say = append(say, turn(chat.RoleAssistant, string(j.raw)), turn(chat.RoleUser, x.form.Complaint(j.verdicts[j.wrong])))
			continue
		default:
			return nil, nil, nil
		}
		i, say = i+1, nil
	}
	return nil, nil, nil
}

// escalatedWord is what there is to say of the tier that answered; "" for the one that was asked.
func (x *exchange) escalatedWord() string {
	switch {
	case x.stored != nil:
		return x.stored.Escalated
	case x.escalation == nil || x.escalation.from.Provider == "":
		return ""
	}
	return tier1 + "->" + tier2 + "; reason=" + string(x.escalation.reason)
}

// The event of an escalation.
const eventEscalated = "inference:escalated"

type escalated struct {
	RequestID string            `json:"request_id"`
	From      string            `json:"from"`
	To        string            `json:"to"`
	Reason    string            `json:"reason"`
	Provider  policy.ProviderID `json:"provider"` // of the answer that is given
	Model     policy.ModelID    `json:"model"`
	Before    policy.ProviderID `json:"from_provider"`
	BeforeOf  policy.ModelID    `json:"from_model"`
}

func (x *exchange) tellEscalated(to *policy.Resolution) {
	if !x.gw.Events.On() {
		return
	}
	e := x.escalation
	x.gw.Events.Emit(eventEscalated, x.Principal.Account, escalated{
		x.ID, tier1, tier2, string(e.reason), to.Provider, to.Model, e.from.Provider, e.from.Model,
	})
}

// escalationTold is the part of the request's record; nil for one that stayed at its tier.
func (x *exchange) escalationTold() *record.Escalation {
	e := x.escalation
	if e == nil || e.from.Provider == "" {
		return nil
	}
	return &record.Escalation{From: tier1, To: tier2, Reason: string(e.reason), By: &record.Model{Provider: e.from.Provider, Model: e.from.Model}}
}

// reconsiders reports whether a good answer of the request may be replaced by another model's.
func (x *exchange) reconsiders() bool { return x.verifies() || x.escalates() }

// besides is the most that calls beside those of the order may cost.
func (x *exchange) besides() policy.Pico {
	var cost policy.Pico
	input, output := x.Request.MostInput, int64(x.maxTokens())
	if x.verifies() {
		second := x.inTier([]policy.Resolution{x.opinions.second})
		cost = cost.Plus(resolve.WorstCost(second, input+x.formTokens(second), policy.AddTokens(output, int64(x.raised(second))), 1), x.searching(second))
	}
	if x.escalates() {
		e, order := x.escalation, x.inTier(x.escalation.order)
		for again := range 1 + x.retries() {
			more := policy.AddTokens(input+x.formTokens(e.order), policy.TimesTokens(policy.AddTokens(output, complaintTokens), int64(again)))
			cost = cost.Plus(resolve.WorstCost(order, more, policy.AddTokens(output, int64(wire.Budgets[effortOf(e.request)])), 1), x.searching(order))
		}
	}
	return cost
}

// pinnedTo is the one provider that the request asks for; "" for any.
func (x *exchange) pinnedTo() policy.ProviderID {
	if x.Intent.Provider != "" {
		return x.Intent.Provider
	}
	p, _, _ := x.rt.Resolver.Split(x.Intent.Model)
	return p
}
