package request

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// OutputTokens returns the maximum length of the answer in tokens, all choices together: MaxTokens, within the model's limit.
func (v *View) OutputTokens(to policy.Resolution) int {
	n := v.MaxTokens()
	if to.MaxOutput > 0 && n > to.MaxOutput {
		n = to.MaxOutput
	}
	return int(policy.TimesTokens(int64(n), int64(max(1, v.Request.Choices))))
}

// MaxTokens returns the token limit of each choice: the client's, else the profile's, else the configured reserve.
func (v *View) MaxTokens() int {
	switch p := v.Request.Profile; {
	case v.Request.Op == chat.Embed: // the answer has no text
		return 0
	case v.Request.MaxTokens > 0:
		return v.Request.MaxTokens
	case p != nil && p.MaxTokens > 0:
		return p.MaxTokens
	}
	return v.Config.ReserveOutput
}

// UnlimitedOutput reports whether a billed answer of a candidate may exceed the configured reserve.
func (v *View) UnlimitedOutput(to policy.Resolution) bool {
	return !v.IsFree(&to) && (to.MaxOutput == 0 || to.MaxOutput > v.Config.ReserveOutput)
}

// IsTokenCount reports whether this is a request to a token counting endpoint.
func (v *View) IsTokenCount() bool { return v.Request.Op == chat.CountTokens }
