package request

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

var _ meter.Request = (*View)(nil)

// Terms implements meter.Request: who pays a candidate, its service tier, and whether reasoning may be billed.
func (v *View) Terms(to *policy.Resolution) meter.Terms {
	return meter.Terms{Direct: v.CallerPays(to.Provider), Tier: v.TierAt(to), Thinks: v.mayReason(to)}
}

// InputTokens implements meter.Request: the estimate of the request's input.
func (v *View) InputTokens() int64 { return v.Request.InputTokens }

// Subsystem implements meter.Request.
func (v *View) Subsystem() string { return v.Hints.Subsystem }

// unknownWindow replaces a context window that the catalog does not have, in tokens: larger than that of any current model.
const unknownWindow = 4 << 20

// MaxCallTokens implements meter.Request: the maximum number of tokens that one call can use, against which a provider's reported usage is checked
// (D-87). It is the context window (for a verbatim request the estimate's upper bound) plus the output limit of each choice; twice that if the
// provider compacts the context, which is a second model run.
func (v *View) MaxCallTokens(to *policy.Resolution) int64 {
	if v.Request.Op == chat.Embed { // each of several texts has the whole window
		return v.Request.MaxInput
	}
	window := int64(v.WindowAt(to))
	if window == 0 {
		window = unknownWindow
	}
	output := window
	switch {
	case v.Request.MaxTokens > 0:
		output = policy.AddTokens(int64(v.Request.MaxTokens), int64(v.ThinkingTokens([]policy.Resolution{*to})))
	case to.MaxOutput > 0:
		output = int64(to.MaxOutput)
	}
	if v.Verbatim() {
		window = v.Request.MaxInput
	}
	maxTokens := policy.AddTokens(window, policy.TimesTokens(output, int64(max(v.Request.Choices, 1))))
	if wire.Compacts(&v.Request.Doc) {
		maxTokens = policy.TimesTokens(maxTokens, 2)
	}
	return maxTokens
}

// mayReason reports whether a candidate may reason before it answers this request.
func (v *View) mayReason(to *policy.Resolution) bool {
	switch {
	case to.Reasoning == "none":
		return false
	case to.Thinks == policy.ThinksAlways || to.Control == policy.ControlAlways:
		return true
	case v.Request == nil:
		return false
	}
	return (v.Request.Thinking || to.Thinks == policy.ThinksByDefault) && !v.Request.ThinkingOff()
}
