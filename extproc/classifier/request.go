package classifier

import (
	"fmt"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// MayApply reports whether the classifier may apply to a request, as far as is known without its text: the gateway chooses its model, and nothing
// else states what it needs. False for nil.
func (c *Classifier) MayApply(h *policy.Hints, model string) bool {
	return c != nil && intent.Auto(model) && h.Subsystem == "" && h.Quality == policy.QualityUnset
}

// Applies reports whether the classifier applies to a request. False for nil.
func (c *Classifier) Applies(h *policy.Hints, f *intent.Facts) bool {
	return c.MayApply(h, f.Model) && f.Text != ""
}

// Note returns the entry in X-Bardo-Pipeline for a result of Judge.
func Note(r *intent.Reading, reason string) string {
	if r == nil {
		if reason == "late" {
			return "" // as for any step that exceeded its limit
		}
		return reason
	}
	note := fmt.Sprintf("level=%.1f", r.Level)
	if r.SureOfDomain() {
		note += ";domain=" + r.Domain
	}
	if r.SureOfIntent() {
		note += ";intent=" + r.Intent
	}
	if r.Unsafe {
		note += ";unsafe"
	}
	return note
}
