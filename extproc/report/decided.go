package report

import (
	"net/http"
	"slices"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// protecting are the layers whose notes are decisions: about personal data and injected instructions.
var protecting = map[string]bool{"l7": true, "l8": true, policy.ByGuardrail: true, policy.ByFirewall: true}

// refusals are the error codes of refusals that an audit covers: by identity, money or rule. Malformed requests and failures of providers are not
// among them.
var refusals = []fault.Kind{
	fault.InvalidAPIKey, fault.KeyRestricted, fault.PaymentRequired, fault.PaymentReplayed, fault.InsufficientFunds, fault.BudgetExceeded,
	fault.RateLimited, fault.AllowanceExhausted, fault.UnpricedParameter, fault.PromptInjection, fault.SecretInPrompt, fault.ToolRefused,
	fault.GuardrailRefused, fault.GuardrailDown, fault.NoPrivateProvider,
}

// decided emits the event of a request with a decision to audit.
func (r *Report) decided() {
	if !r.Events().On() {
		return
	}
	e := record.Decided{
		RequestID: r.ID, Operation: r.Trace.Operation.String(), Subsystem: r.Hints.Subsystem, GolemID: r.Hints.GolemID, Attestation: r.Attestation,
		PrivacyTier: r.neededTier(), Security: r.securityClass(), Decisions: r.Tags, Notes: r.notes(),
	}
	if e.Status, e.Error = r.Trace.Verdict(); e.Status == http.StatusAccepted { // deferred: not over yet
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

// objects reports whether a decision is anything but "allowed".
func objects(t policy.Tag) bool { return t.Decision != policy.DecisionAllowed }

// securityClass returns the class that the request states; "" for the default.
func (r *Report) securityClass() string {
	if r.Hints.SecurityClass == policy.SecurityStandard {
		return ""
	}
	return r.Hints.SecurityClass.String()
}

// neededTier returns the privacy tier that the request required; "" for none.
func (r *Report) neededTier() string { return max(r.Hints.PrivacyTier, r.Intent.PrivacyTier).String() }

// notes returns the notes of protecting layers that found something.
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
