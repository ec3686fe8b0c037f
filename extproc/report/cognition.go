package report

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/epoch"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/privacy"
	"bardo.money/gateway/policy/resolve"
)

// isVenice reports whether a provider is Venice, the private one.
func (r *Report) isVenice(id policy.ProviderID) bool {
	return r.Config.Provider(id).Adapter.Name() == cognition.Kind
}

// Cognition emits the event of an answered call of the private provider. seen is parsed from the answer's headers.
func (r *Report) Cognition(s *Summary, seen cognition.Seen) {
	if r.Plane == nil || s.Stored || !r.isVenice(s.By.Provider) || s.Outcome == record.Failed || s.Outcome == record.Disconnected {
		return
	}
	rec := cognition.Record{
		Class: cmp.Or(privacy.ClassOf(&r.Hints), cognition.Unclassified), Model: cmp.Or(s.By.Upstream, string(s.By.Model)), Tier: r.tierOf(&s.By).String(), Ray: seen.Ray,
		LatencyMS: time.Since(r.Started).Milliseconds(), Input: s.Usage.TotalInput(), Output: s.Usage.Output, Cost: s.Cost.Charge(0),
	}
	if r.Hints.Tick != 0 {
		rec.Tick = strconv.FormatInt(r.Hints.Tick, 10)
	}
	if rec.Input > 0 {
		rec.CachedRatio = float64(s.Usage.Cached) / float64(rec.Input)
	}
	if !r.Principal.Prepaid { // customers must not see the operator's balance at the provider
		rec.Balance = seen.Balance
	}
	if p, _ := r.Attests(&s.By); p != nil {
		rec.Attested = new(r.Attestation != "")
	}
	if r.Review.HasSchema() {
		rec.Valid = new(s.Outcome != record.Invalid)
	}
	r.Plane.Add(r.Principal.Account, &rec, r.dreamBudget())
}

// tierOf returns the privacy tier of a candidate's answer; at least, its provider retains nothing.
func (r *Report) tierOf(by *policy.Resolution) policy.PrivacyTier {
	if slices.Contains(by.Degraded, resolve.PrivacyTier) {
		return policy.PrivacyNoLog
	}
	if r.Intent.PrivacyTier < policy.PrivacyTEE && r.WantsEnclave(by) {
		return policy.PrivacyTEE
	}
	return max(r.Intent.PrivacyTier, policy.PrivacyNoLog)
}

// dreamBudget returns the agent's budget for today's dreams; nil if there is none.
func (r *Report) dreamBudget() *policy.Micro {
	if a := &r.Bill.Allowance; a.Part == budget.Dream && a.Limited() {
		return new(a.Limits[budget.Dream])
	}
	return nil
}

// KeyRefused emits the event of a key that the private provider refused.
func (r *Report) KeyRefused(to *policy.Resolution, f *upstream.Failure) {
	if r.Plane != nil && f.Kind == upstream.ByStatus && f.CredentialRefused() && r.isVenice(to.Provider) {
		r.Plane.SetKey(cognition.Expired, "")
	}
}

// Epoch sets the key of the agent's prompts in providers' caches, and emits the events of a new epoch and of the request's phase.
func (r *Report) Epoch(c *epoch.Coordinator) {
	if emit := r.Config.Phase; emit != nil && r.Hints.Phase != policy.PhaseUnset {
		emit(r.Principal.Account, r.Hints.Phase)
	}
	key, number, reason := c.Key(r.Config.Epochs, r.Principal.Account, &r.Hints, time.Now())
	r.Hints.CacheKey = key
	if reason != epoch.Same && r.Events().On() {
		epoch.EventAdvanced.Emit(r.Events(), r.Principal.Account, epoch.Advanced{RequestID: r.ID, GolemID: r.Hints.GolemID, Epoch: number, Reason: reason})
	}
}
