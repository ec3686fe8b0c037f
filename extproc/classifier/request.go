package classifier

import (
	"fmt"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// MayJudge reports whether the classifier may have a say in a request, as far as is known without its text: its model is the gateway's choice, and nothing
// else says what it needs. A nil one has none.
func (c *Classifier) MayJudge(h *policy.Hints, model string) bool {
	return c != nil && intent.Auto(model) && h.Subsystem == "" && h.Quality == policy.QualityUnset
}

// Judges reports whether the classifier has a say in a request. A nil one has none.
func (c *Classifier) Judges(h *policy.Hints, f *intent.Facts) bool {
	return c.MayJudge(h, f.Model) && f.Text != ""
}

// Note is what X-Bardo-Pipeline says of a judgement, as Judge returns it.
func Note(r *intent.Reading, why string) string {
	if r == nil {
		if why == "late" {
			return "" // as of any step that exceeded its limit
		}
		return why
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
