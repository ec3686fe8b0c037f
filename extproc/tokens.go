package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/models/tokens"
	"bardo.money/gateway/policy"
)

// maxCounted is the longest request whose tokens are counted, in bytes: about 0.1 s. Longer ones are estimated.
const maxCounted = 1 << 20

// The tokens that OpenAI's chat format adds to each message, and to the answer's beginning.
const (
	tokensPerMessage = 3
	tokensPerAnswer  = 3
)

// countTokens is the number of the request's input tokens. It is exact for a conversation of text alone, if the first candidate is a model of OpenAI's with the
// vocabulary o200k; of one with tools, the texts are counted, but not what the provider adds. All others are estimated, and the estimate is corrected by
// what providers counted of earlier requests.
func (x *exchange) countTokens() (n int64, exact bool) {
	if !tokens.Uses(string(x.Order[0].Model)) || len(x.Request.Doc.Bytes) > maxCounted {
		return x.estimatedTokens(), false
	}
	c, err := x.Request.Conversation()
	if err != nil {
		return x.estimatedTokens(), false
	}
	exact, n = true, tokensPerAnswer
	add := func(role chat.Role, parts []chat.Part) bool {
		n += tokensPerMessage + int64(tokens.Count(string(role)))
		for i := range parts {
			switch p := &parts[i]; p.Kind {
			case chat.PartText, chat.PartRefusal:
				n += int64(tokens.Count(p.Text))
			default:
				return false
			}
		}
		return true
	}
	ok := len(c.System) == 0 || add("system", c.System)
	for i := range c.Messages {
		ok = ok && add(c.Messages[i].Role, c.Messages[i].Parts)
	}
	if !ok {
		return x.estimatedTokens(), false
	}
	for i := range c.Tools {
		t := &c.Tools[i]
		n += int64(tokens.Count(t.Name) + tokens.Count(t.Description) + tokens.Count(string(t.Schema)))
		exact = false
	}
	return n, exact
}

// estimatedTokens is the corrected estimate for the first candidate's model.
func (x *exchange) estimatedTokens() int64 {
	return x.gw.meter.Corrected(x.Order[0].Model, x.Request.InputTokens)
}

// safeTokens is the estimate of a request that is set aside from its key's allowance: not below that of any candidate's model, nor below the uncorrected one.
func (x *exchange) safeTokens(candidates []policy.Resolution) int64 {
	n := x.Request.InputTokens
	for i := range candidates {
		n = max(n, x.gw.meter.AtLeast(candidates[i].Model, x.Request.InputTokens))
	}
	return n
}

// learnTokens corrects the estimates of a model by what its provider counted of the request as it was sent: of text alone, and without anything that the
// gateway has put behind it.
func (x *exchange) learnTokens(a *answer) {
	u := &a.count.Reported
	if r := x.Request; r.Op == chat.Generate && r.Doc.Stats.Opaque == 0 && a.form == nil && u.Final {
		x.gw.meter.LearnTokens(a.res.Model, r.InputTokens, u.TotalInput())
	}
}
