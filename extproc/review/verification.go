package review

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// HeaderVerified is the result of verification by a second model.
const HeaderVerified = "x-bardo-verified"

// checkVerify is the part of a cache key for requests that are verified: their answers are stored apart.
const checkVerify = "verify"

// Verification is a request's verification and its result.
type Verification struct {
	Requested bool              // if it is skipped, X-Bardo-Degraded says so
	Verifier  policy.Resolution // the second model; no provider: none

	result     string             // "" until it is known
	SkipReason string             // why it was skipped
	By         *policy.Resolution // the model that was called besides the one whose answer is sent
	chosen     structured.Side
	Compared   structured.Comparison
}

// The results of a verification.
const (
	verifiedAgreed    = "agreed"
	verifiedDisagreed = "disagreed"
	verifiedSkipped   = "skipped"
)

// Reasons why verification was skipped.
const (
	skippedNoCandidate   = "no_second_model"
	skippedNotVerifiable = "not_verifiable" // see verifiable
	skippedWallet        = "wallet"         // the wallet that pays for agents' inference has too little (P-12)
	SkippedFailed        = "failed"
	SkippedSameFamily    = "same_family" // after failures, the candidate that answered is of the verifier's family
	SkippedNoAnswer      = "no_answer"   // a model called a tool of the client's, or refused
)

// Skip ends a verification without a result.
func (o *Verification) Skip(reason string) { o.result, o.SkipReason = verifiedSkipped, reason }

// PlanVerification decides whether the request is verified, and by which model.
func (r *Review) PlanVerification() {
	if r.Request.Op != chat.Generate || r.Verbatim() {
		return
	}
	isRisk := intent.Root(r.Hints.Subsystem) == runtime.SubsystemRisk && r.Hints.Subsystem != ""
	required := r.Hints.Verify || isRisk && r.Config.VerifyRisk == runtime.VerifyAlways
	if !required && (!isRisk || r.Config.VerifyRisk == runtime.VerifyOnRequest || !r.Config.Resolver.Offers(policy.CrossVerify)) {
		return
	}
	o := &Verification{Requested: required}
	seconds := r.verifiers(&r.Found[0])
	switch {
	case !required && (r.pinned() || !r.verifiable() || !slices.ContainsFunc(seconds, hasCrossVerify)):
		return
	case !r.verifiable():
		o.Skip(skippedNotVerifiable)
	case !isRisk && r.Hints.Subsystem != "" && !intent.Critical(r.Hints.Subsystem) && r.Config.Wallet.Band().Unverified:
		o.Skip(skippedWallet)
	case len(seconds) == 0:
		o.Skip(skippedNoCandidate)
	default:
		o.Verifier = seconds[0]
		r.Request.Check = checkVerify
	}
	r.Verification = o
}

// Unverified reports whether verification was planned and skipped: the answer is not stored, since another request may be verified.
func (r *Review) Unverified() bool {
	return r.Request.Check == checkVerify && r.Verification.SkipReason != ""
}

// hasCrossVerify reports whether a model supports verification.
func hasCrossVerify(to policy.Resolution) bool {
	return slices.Contains(to.Features, policy.CrossVerify)
}

// pinned reports whether the request names a provider.
func (r *Review) pinned() bool {
	if r.Intent.Provider != "" {
		return true
	}
	_, _, ok := r.Config.Resolver.Split(r.Intent.Model)
	return ok
}

// verifiable reports whether a second model's answer can be compared with the first: not for requests that are forwarded unchanged, have several
// choices, or continue from what a provider stores.
func (r *Review) verifiable() bool {
	return !r.SkipsLayers() && r.Request.Choices <= 1 && r.AnyProvider()
}

// verifiers returns the models that may verify a candidate's answer, best first. Each could serve the request itself.
func (r *Review) verifiers(first *policy.Resolution) []policy.Resolution {
	list := r.Config.Resolver.Verifiers(&r.Intent, first)
	return slices.DeleteFunc(list, func(to policy.Resolution) bool {
		return !r.MayCall(&to) || r.Config.UnsupportedContent(r.Request, &to) != nil || !r.HasPrices(&to)
	})
}

// ChooseVerifier selects the verifier of the first candidate's answer: the best healthy one. byHealth filters by health.
func (r *Review) ChooseVerifier(byHealth func([]policy.Resolution) []policy.Resolution) {
	o := r.Verification
	if o == nil || o.result != "" {
		return
	}
	list := byHealth(r.verifiers(&r.Order[0]))
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

// Verifies reports whether a second model is called.
func (r *Review) Verifies() bool {
	return r.Verification != nil && r.Verification.Verifier.Provider != ""
}

// String returns the header's value.
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

// VerifiedStatus returns the value of X-Bardo-Verified as known now; "" for a request that is not verified.
func (r *Review) VerifiedStatus() string {
	if r.Verification == nil || r.Verification.result == "" {
		return ""
	}
	return r.Verification.String()
}

// Compare compares two valid answers, records the result, and returns which of them is sent.
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

// SchemaName returns the name of the answer's schema, if it is a published one; "" for any other.
func (r *Review) SchemaName() string {
	if r.Schema == nil || !r.Schema.Builtin() {
		return ""
	}
	return r.Schema.Name()
}

// The verification event.
var eventVerified = event.Declare[verifiedEvent]("inference:verified", "An answer was compared with a second model's, or could not be.")

type verifiedEvent struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Result    string            `json:"result"`
	Reason    string            `json:"reason,omitempty"` // why it was skipped
	Provider  policy.ProviderID `json:"provider"`         // provider of the answer that is sent
	Model     policy.ModelID    `json:"model"`
	By        policy.ProviderID `json:"by_provider,omitempty"` // the other model
	ByModel   policy.ModelID    `json:"by_model,omitempty"`
	Agree     int               `json:"agree"`
	Fields    int               `json:"fields"`
}

// EmitVerified emits the event of a verification; to is the candidate whose answer is sent.
func (r *Review) EmitVerified(to *policy.Resolution) {
	if !r.Events.On() {
		return
	}
	o := r.Verification
	e := verifiedEvent{
		RequestID: r.ID, Subsystem: r.Hints.Subsystem, Result: o.result, Reason: o.SkipReason, Provider: to.Provider, Model: to.Model,
		Agree: o.Compared.Agreed(), Fields: len(o.Compared.Fields),
	}
	if o.By != nil {
		e.By, e.ByModel = o.By.Provider, o.By.Model
	}
	eventVerified.Emit(r.Events, r.Principal.Account, e)
}

// VerificationRecord returns the verification in the request's record: the fields by the names that the gateway's own schemas have, "*" for any other, without their
// values. It is nil for a request that is not
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
		rec.Fields = append(rec.Fields, record.Field{Path: cmp.Or(f.Criterion, "*"), Agree: f.Agree})
	}
	return rec
}
