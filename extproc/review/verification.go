package review

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// HeaderVerified says what a second model made of the answer.
const HeaderVerified = "x-bardo-verified"

// checkVerify marks questions whose answers are given after a second opinion.
const checkVerify = "verify"

// Verification is what a request's verification comes to.
type Verification struct {
	Requested bool              // its absence is named as degraded
	Verifier  policy.Resolution // who is asked besides; no provider: nobody

	result     string             // "" until it is known
	SkipReason string             // why there is none
	By         *policy.Resolution // who was asked besides the one that answers
	chosen     structured.Side
	Compared   structured.Comparison
}

// The results of a verification.
const (
	verifiedAgreed    = "agreed"
	verifiedDisagreed = "disagreed"
	verifiedSkipped   = "skipped"
)

// Why there was no verification.
const (
	skippedNoCandidate   = "no_second_model"
	skippedNotVerifiable = "not_verifiable" // the request is of a kind that is not verified
	SkippedFailed        = "failed"
	SkippedSameFamily    = "same_family" // those that came before failed, and the one that answered is of the other's family
	SkippedNoAnswer      = "no_answer"   // a model called a tool of the client's, or declined
)

// Skip ends a verification without a result.
func (o *Verification) Skip(why string) { o.result, o.SkipReason = verifiedSkipped, why }

// PlanVerification finds out whether the request is verified, and by whom.
func (r *Review) PlanVerification() {
	if r.Request.Op != chat.Generate || r.Verbatim() {
		return
	}
	isRisk := intent.Root(r.Hints.Subsystem) == runtime.SubsystemRisk && r.Hints.Subsystem != ""
	owed := r.Hints.Verify || isRisk && r.Config.VerifyRisk == runtime.VerifyAlways
	if !owed && (!isRisk || r.Config.VerifyRisk == runtime.VerifyOnRequest || !r.Config.Resolver.Offers(policy.CrossVerify)) {
		return
	}
	o := &Verification{Requested: owed}
	seconds := r.verifiers(&r.Found[0])
	switch {
	case !owed && (r.pinned() || !r.verifiable() || !slices.ContainsFunc(seconds, hasCrossVerify)):
		return
	case !r.verifiable():
		o.Skip(skippedNotVerifiable)
	case len(seconds) == 0:
		o.Skip(skippedNoCandidate)
	default:
		o.Verifier = seconds[0]
		r.Request.Check = checkVerify
	}
	r.Verification = o
}

// Unverified reports whether the answer lacks the check that its question is marked for: another request may have more luck.
func (r *Review) Unverified() bool {
	return r.Request.Check == checkVerify && r.Verification.SkipReason != ""
}

// verifier tells whether a model is offered for verification.
func hasCrossVerify(to policy.Resolution) bool {
	return slices.Contains(to.Features, policy.CrossVerify)
}

// pinned reports whether the request asks for one provider alone.
func (r *Review) pinned() bool {
	if r.Intent.Provider != "" {
		return true
	}
	_, _, ok := r.Config.Resolver.Split(r.Intent.Model)
	return ok
}

// verifiable reports whether a second answer to the request could be compared with the first: those that pass as they are, those of
// several choices and those that go on from what a provider keeps have none.
func (r *Review) verifiable() bool {
	return !r.SkipsLayers() && r.Request.Choices <= 1 && r.AnyProvider()
}

// verifiers are those who may be asked besides a candidate, best first: nobody who could not answer the request itself.
func (r *Review) verifiers(first *policy.Resolution) []policy.Resolution {
	list := r.Config.Resolver.Seconds(&r.Intent, first)
	return slices.DeleteFunc(list, func(to policy.Resolution) bool {
		return !r.mayCall(to.Provider) || r.Config.UnsupportedContent(r.Request, &to) != nil || !r.HasPrices(&to)
	})
}

// mayCall reports whether a provider may be asked on this request's behalf, by the credentials that it takes.
func (r *Review) mayCall(id policy.ProviderID) bool {
	p := r.Config.Providers[id]
	switch {
	case r.OwnKey.IsSet() && !p.BYOK, !r.OwnKey.IsSet() && p.BYOK && !p.Endpoint.Key.IsSet():
		return false
	case p.Direct && !p.Engineered: // it takes requests as they are
		return false
	}
	return p.Free || !r.Principal.Anonymous || r.Config.Keyless == runtime.KeylessAnyone
}

// ChooseVerifier settles who is asked besides the first of the order: of those that are well, the best.
func (r *Review) ChooseVerifier(well func([]policy.Resolution) []policy.Resolution) {
	o := r.Verification
	if o == nil || o.result != "" {
		return
	}
	list := well(r.verifiers(&r.Order[0]))
	if len(list) == 0 {
		o.Verifier = policy.Resolution{}
		o.Skip(skippedNoCandidate)
		return
	}
	o.Verifier = list[0]
	if r.CallerPays(o.Verifier.Provider) {
		o.Verifier.Prices = policy.Prices{Known: true}
	}
}

// Verifies reports whether a second model is asked.
func (r *Review) Verifies() bool {
	return r.Verification != nil && r.Verification.Verifier.Provider != ""
}

// String is the header's value.
func (o *Verification) String() string {
	parts := []string{o.result}
	if o.SkipReason != "" {
		parts = append(parts, "reason="+o.SkipReason)
	}
	if o.By != nil {
		parts = append(parts, "by="+header.ListItem(string(o.By.Provider)+"/"+string(o.By.Model)))
	}
	if n := len(o.Compared.Fields); n > 0 {
		parts = append(parts, "fields="+strconv.Itoa(o.Compared.Agreed())+"/"+strconv.Itoa(n))
	}
	return strings.Join(parts, "; ")
}

// VerifiedStatus is what there is to say of the answer's verification at this moment; "" for one without.
func (r *Review) VerifiedStatus() string {
	if r.Verification == nil || r.Verification.result == "" {
		return ""
	}
	return r.Verification.String()
}

// Compare notes how a good answer and a second model's compare, and says which of them is given.
func (r *Review) Compare(first, second *policy.Resolution, j, jb *Validation) structured.Side {
	o := r.Verification
	o.Compared = structured.Compare(r.SchemaName(), j.Text(), jb.Text())
	o.result, o.chosen, o.By = verifiedAgreed, structured.First, second
	if !o.Compared.Same() {
		o.result = verifiedDisagreed
	}
	if o.Compared.Stricter == structured.Second {
		o.chosen, o.By = structured.Second, first
	}
	return o.chosen
}

// SchemaName is the name of the answer's form, if it is one of ours; "" for any other.
func (r *Review) SchemaName() string {
	if r.Schema == nil || !r.Schema.Builtin() {
		return ""
	}
	return r.Schema.Name()
}

// The event of a verification.
const eventVerified = "inference:verified"

type verifiedEvent struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Result    string            `json:"result"`
	Reason    string            `json:"reason,omitempty"` // why it was skipped
	Provider  policy.ProviderID `json:"provider"`         // of the answer that is given
	Model     policy.ModelID    `json:"model"`
	By        policy.ProviderID `json:"by_provider,omitempty"` // who was asked besides
	ByModel   policy.ModelID    `json:"by_model,omitempty"`
	Agree     int               `json:"agree"`
	Fields    int               `json:"fields"`
}

// EmitVerified emits the event of a verification; to is the candidate whose answer is given.
func (r *Review) EmitVerified(to *policy.Resolution) {
	if !r.Events.On() {
		return
	}
	o := r.Verification
	told := verifiedEvent{
		RequestID: r.ID, Subsystem: r.Hints.Subsystem, Result: o.result, Reason: o.SkipReason, Provider: to.Provider, Model: to.Model,
		Agree: o.Compared.Agreed(), Fields: len(o.Compared.Fields),
	}
	if o.By != nil {
		told.By, told.ByModel = o.By.Provider, o.By.Model
	}
	r.Events.Emit(eventVerified, r.Principal.Account, told)
}

// VerificationRecord is the part of the request's record: names of fields, and nothing that stands in them. It is nil for a request that is not
// verified.
func (r *Review) VerificationRecord() *record.Verification {
	o := r.Verification
	if o == nil || o.result == "" {
		return nil
	}
	rec := &record.Verification{Result: o.result, Reason: o.SkipReason, StricterBy: o.Compared.DecidedBy}
	if o.By != nil {
		rec.By = &record.Model{Provider: o.By.Provider, Model: o.By.Model}
	}
	switch o.chosen {
	case structured.First:
		rec.Given = "first"
	case structured.Second:
		rec.Given = "second"
	case structured.Neither:
	}
	for i := range o.Compared.Fields {
		f := &o.Compared.Fields[i]
		rec.Fields = append(rec.Fields, record.Field{Path: f.Path, Agree: f.Agree})
	}
	return rec
}
