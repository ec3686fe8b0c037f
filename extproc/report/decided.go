package report

import (
	"net/http"
	"slices"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// protecting are the layers whose notes are decisions: personal data, injected instructions.
var protecting = map[string]bool{"l7": true, "l8": true, policy.ByGuardrail: true, policy.ByFirewall: true}

// refusals are the codes of errors by which a request is refused for a reason that an audit asks for: who, for what money, by which rule. Malformed requests and failures of
// providers are none.
var refusals = []fault.Kind{
	fault.InvalidAPIKey, fault.KeyRestricted, fault.PaymentRequired, fault.PaymentReplayed, fault.InsufficientFunds, fault.BudgetExceeded,
	fault.RateLimited, fault.AllowanceExhausted, fault.UnpricedParameter, fault.PromptInjection, fault.SecretInPrompt, fault.ToolRefused,
	fault.GuardrailRefused, fault.GuardrailDown, fault.NoPrivateProvider,
}

// decided emits the event of a request about which something was decided.
func (r *Report) decided() {
	if !r.Events().On() {
		return
	}
	e := record.Decided{
		RequestID: r.ID, Operation: r.Trace.Operation.String(), Subsystem: r.Hints.Subsystem, GolemID: r.Hints.GolemID, Attestation: r.Attestation,
		PrivacyTier: r.neededTier(), Security: r.securityClass(), Decisions: r.Tags, Notes: r.notes(),
	}
	if e.Status, e.Error = r.Trace.Verdict(); e.Status == http.StatusAccepted { // for later: it is not over
		return
	}
	if !slices.Contains(refusals, fault.Kind(e.Error)) && e.PrivacyTier == "" && e.Security == "" && e.Attestation == "" && len(e.Notes) == 0 && !slices.ContainsFunc(e.Decisions, objects) {
		return
	}
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		e.Client = r.Head.Peer.String()
	}
	if s := r.Trace.Settled; s != nil {
		e.Outcome, e.Provider, e.Model, e.Cost = s.Outcome, s.By.Provider, s.By.Model, s.Charged
	}
	record.EventDecided.Emit(r.Events(), r.Principal.Account, e)
}

// objects reports whether a decision is another one than that something may pass.
func objects(t policy.Tag) bool { return t.Decision != policy.DecisionAllowed }

// securityClass is the class that the request says; "" for the usual one.
func (r *Report) securityClass() string {
	if r.Hints.SecurityClass == policy.SecurityStandard {
		return ""
	}
	return r.Hints.SecurityClass.String()
}

// neededTier is the tier of privacy that the request needed; "" for none.
func (r *Report) neededTier() string { return max(r.Hints.PrivacyTier, r.Intent.PrivacyTier).String() }

// notes are those of the layers that protect, where they have found something.
func (r *Report) notes() (list []record.LayerNote) {
	for i := range r.Log {
		e := &r.Log[i]
		note := e.Note
		if e.Later != nil {
			note = e.Later.Note()
		}
		if note != "" && protecting[e.Layer] {
			list = append(list, record.LayerNote{Layer: e.Layer, Note: note})
		}
	}
	return list
}
