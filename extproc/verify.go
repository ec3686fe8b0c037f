package extproc

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// A second model, of another family, may be asked the same, at the same time. Both answers are held back, and the more careful one is
// given.

// VerifyRisk says whether what the risk part of an agent asks is verified though its caller does not say so.
type VerifyRisk string

// The choices.
const (
	VerifyWhereMeant VerifyRisk = "auto" // where a provider can serve it that is there for verification; "" is the same
	VerifyAlways     VerifyRisk = "always"
	VerifyAsked      VerifyRisk = "off"
)

// headerVerified says what a second model made of the answer.
const headerVerified = "x-bardo-verified"

// checkVerify marks questions whose answers are given after a second opinion.
const checkVerify = "verify"

// partRisk is the part of an agent whose answers are verified unless the operator says otherwise.
const partRisk = "risk"

// opinions is what a request's verification comes to.
type opinions struct {
	owed   bool              // its absence is named as degraded
	second policy.Resolution // who is asked besides; no provider: nobody

	result   string             // "" until it is known
	skipped  string             // why there is none
	by       *policy.Resolution // who was asked besides the one that answers
	given    structured.Side
	compared structured.Comparison
}

// The results of a verification.
const (
	verifiedAgreed    = "agreed"
	verifiedDisagreed = "disagreed"
	verifiedSkipped   = "skipped"
)

// Why there was no verification.
const (
	skippedNobody   = "no_second_model"
	skippedUnfit    = "not_verifiable" // the request is of a kind that is not verified
	skippedFailed   = "failed"
	skippedFamily   = "same_family" // those that came before failed, and the one that answered is of the other's family
	skippedNoAnswer = "no_answer"   // a model called a tool of the client's, or declined
)

// skip ends a verification without a result.
func (o *opinions) skip(why string) { o.result, o.skipped = verifiedSkipped, why }

// planVerification finds out whether the request is verified, and by whom.
func (x *exchange) planVerification() {
	if x.Request.Op != chat.Generate || x.verbatim() {
		return
	}
	isRisk := intent.Root(x.Hints.Subsystem) == partRisk && x.Hints.Subsystem != ""
	owed := x.Hints.Verify || isRisk && x.rt.VerifyRisk == VerifyAlways
	if !owed && (!isRisk || x.rt.VerifyRisk == VerifyAsked || !x.rt.Resolver.Offers(policy.CrossVerify)) {
		return
	}
	o := &opinions{owed: owed}
	seconds := x.seconds(&x.Found[0])
	switch {
	case !owed && (x.pinned() || !x.verifiable() || !slices.ContainsFunc(seconds, verifier)):
		return
	case !x.verifiable():
		o.skip(skippedUnfit)
	case len(seconds) == 0:
		o.skip(skippedNobody)
	default:
		o.second = seconds[0]
		x.Request.Check = checkVerify
	}
	x.opinions = o
}

// unverified reports whether the answer lacks the check that its question is marked for: another request may have more luck.
func (x *exchange) unverified() bool {
	return x.Request.Check == checkVerify && x.opinions.skipped != ""
}

// verifier tells whether a model is offered for verification.
func verifier(to policy.Resolution) bool { return slices.Contains(to.Features, policy.CrossVerify) }

// pinned reports whether the request asks for one provider alone.
func (x *exchange) pinned() bool {
	if x.Intent.Provider != "" {
		return true
	}
	_, _, ok := x.rt.Resolver.Split(x.Intent.Model)
	return ok
}

// verifiable reports whether a second answer to the request could be compared with the first: those that pass as they are, those of
// several choices and those that go on from what a provider keeps have none.
func (x *exchange) verifiable() bool {
	return !x.bare() && x.Request.Choices <= 1 && x.anywhere()
}

// seconds are those who may be asked besides a candidate, best first: nobody who could not answer the request itself.
func (x *exchange) seconds(first *policy.Resolution) []policy.Resolution {
	list := x.rt.Resolver.Seconds(&x.Intent, first)
	return slices.DeleteFunc(list, func(to policy.Resolution) bool {
		return !x.mayAsk(to.Provider) || x.rt.unsupported(x.Request, &to) != nil || !x.affordable(&to)
	})
}

// mayAsk reports whether a provider may be asked on this request's behalf, by the credentials that it takes.
func (x *exchange) mayAsk(id policy.ProviderID) bool {
	p := x.rt.Providers[id]
	switch {
	case x.ownKey.IsSet() && !p.BYOK, !x.ownKey.IsSet() && p.BYOK && !p.Endpoint.Key.IsSet():
		return false
	case p.Direct && !p.Engineered: // it takes requests as they are
		return false
	}
	return p.Free || !x.Principal.Anonymous || x.rt.Keyless == KeylessAnyone
}

// chooseSecond settles who is asked besides the first of the order: of those that are well, the best.
func (x *exchange) chooseSecond() {
	o := x.opinions
	if o == nil || o.result != "" {
		return
	}
	list := x.well(x.seconds(&x.Order[0]))
	if len(list) == 0 {
		o.second = policy.Resolution{}
		o.skip(skippedNobody)
		return
	}
	o.second = list[0]
	if x.direct(o.second.Provider) {
		o.second.Prices = policy.Prices{Known: true}
	}
}

// well puts candidates besides those of the order by their health, and leaves out those that an operator disabled.
func (x *exchange) well(list []policy.Resolution) []policy.Resolution {
	if len(list) == 0 {
		return nil
	}
	order, done := x.gw.Health.Plan(providersOf(list))
	if tried := x.tried; tried != nil {
		x.tried = func() { tried(); done() }
	} else {
		x.tried = done
	}
	return x.goneLast(wellFirst(list, order))
}

// verifies reports whether a second model is asked.
func (x *exchange) verifies() bool { return x.opinions != nil && x.opinions.second.Provider != "" }

// String is the header's value.
func (o *opinions) String() string {
	parts := []string{o.result}
	if o.skipped != "" {
		parts = append(parts, "reason="+o.skipped)
	}
	if o.by != nil {
		parts = append(parts, "by="+headerWord(string(o.by.Provider)+"/"+string(o.by.Model)))
	}
	if n := len(o.compared.Fields); n > 0 {
		parts = append(parts, "fields="+strconv.Itoa(o.compared.Agreed())+"/"+strconv.Itoa(n))
	}
	return strings.Join(parts, "; ")
}

// verifiedWord is what there is to say of the answer's verification at this moment; "" for one without.
func (x *exchange) verifiedWord() string {
	switch {
	case x.stored != nil && x.stored.Verified != "":
		return x.stored.Verified
	case x.opinions == nil || x.opinions.result == "":
		return ""
	}
	return x.opinions.String()
}

// checkHeaders append what a second model made of the answer, and whether a better one gave it.
func (x *exchange) checkHeaders(h header.List) header.List {
	if word := x.verifiedWord(); word != "" {
		h = append(h, header.Field{Name: headerVerified, Value: word})
	}
	if word := x.escalatedWord(); word != "" {
		h = append(h, header.Field{Name: headerEscalated, Value: word})
	}
	return h
}

// verify compares a good answer with the second model's, and returns the one that goes out; nil when the client left.
func (s *drivenStream) verify(ctx context.Context, a *answer, j *judgement) (*answer, *judgement) {
	x, o := s.x, s.x.opinions
	b, jb, err := s.secondAnswer(ctx)
	if err != nil {
		return nil, nil
	}
	o.by = &o.second
	switch {
	case b == nil:
		o.skip(skippedFailed)
	case j.open || jb.open:
		o.skip(skippedNoAnswer)
	case x.rt.Resolver.Alike(&a.res, &b.res):
		o.skip(skippedFamily)
	default:
		return s.weigh(a, j, b, jb)
	}
	x.tellVerified(&a.res)
	return a, j
}

// weigh decides between two answers.
func (s *drivenStream) weigh(a *answer, j *judgement, b *answer, jb *judgement) (*answer, *judgement) {
	x, o := s.x, s.x.opinions
	o.compared = structured.Compare(x.formName(), j.text(), jb.text())
	o.result, o.given, o.by = verifiedAgreed, structured.First, &b.res
	if !o.compared.Same() {
		o.result = verifiedDisagreed
	}
	if o.compared.Stricter == structured.Second {
		o.given, o.by = structured.Second, &a.res
		x.giveInstead(a, b, jb)
		a, j = b, jb
	}
	x.tellVerified(&a.res)
	return a, j
}

// giveInstead makes another answer the request's own. The one that it replaces is paid for.
func (x *exchange) giveInstead(a, b *answer, jb *judgement) {
	if a != nil && !a.counted {
		x.charge(a)
		x.answered(a, record.OK)
	}
	x.current = b
	if b.form != nil {
		x.find(b, jb)
		x.tellForm()
	}
}

// formName is the name of the answer's form, if it is one of ours; "" for any other.
func (x *exchange) formName() string {
	if x.form == nil || !x.form.Ours() {
		return ""
	}
	return x.form.Name()
}

// text is what an answer says, by its form where it has one.
func (j *judgement) text() []byte {
	if len(j.verdicts) > 0 && j.verdicts[0].JSON != nil {
		return j.verdicts[0].JSON
	}
	return j.raw
}

// secondOf says, for people, who would verify the answer of a request that wants it; "" for any other.
func (rt *Runtime) secondOf(h *policy.Hints, in *policy.Intent, order []Place) string {
	isRisk := h.Subsystem != "" && intent.Root(h.Subsystem) == partRisk
	if len(order) == 0 || !h.Verify && (!isRisk || rt.VerifyRisk != VerifyAlways) {
		return ""
	}
	first, err := rt.Resolver.Resolve(string(order[0].Model), string(order[0].Provider))
	if err != nil {
		return ""
	}
	for _, to := range rt.Resolver.Seconds(in, &first[0]) {
		return "verified by " + string(to.Provider) + "/" + string(to.Model)
	}
	return "verify: no second model may be asked"
}
