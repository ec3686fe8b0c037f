package request

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/toolcall"
	"bardo.money/gateway/policy"
)

// Some models write their reasoning into their text, in tags. It is parsed before tool calls and schemas.

// reasoningDialect returns the format in which a candidate returns its reasoning.
func (v *View) reasoningDialect(to *policy.Resolution) reasoning.Dialect {
	p := v.Config.Provider(to.Provider)
	return reasoning.Of(p.Reasoning, to, p.Adapter.Dialect(*to, p.Endpoint, v.Request.Dialect))
}

// ThoughtReader returns a parser of reasoning in a model's text; nil for a model without reasoning tags. calls: tool calls are parsed from the text
// as well. It may use the parsed conversation: not safe for concurrent use.
func (v *View) ThoughtReader(to policy.Resolution, calls bool) *reasoning.Reader {
	d := v.reasoningDialect(&to)
	if len(d.Tags) == 0 {
		return nil
	}
	o := reasoning.Options{Tags: d.Tags, Implicit: to.ImplicitOpen && !v.Request.ThinkingOff(), Choices: v.Request.Choices}
	o.Frames = v.Request.Dialect == chat.OpenAI
	if calls {
		o.Closers = toolcall.Format(to.ToolFormat).Closers()
	}
	return reasoning.NewReader(o)
}

// MayRetain reports whether the gateway may store anything of the answer. It may not for a caller without an account, a confidential request (D-05),
// or one with any privacy hint or feature (D-44).
func (v *View) MayRetain() bool {
	return v.Principal.Account != "" && v.Intent.Security == policy.SecurityStandard && !v.WantsPrivacy()
}
