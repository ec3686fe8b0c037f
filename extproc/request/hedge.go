package request

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// HedgeAt returns the index in the order of the candidate that may be called beside the first one, if that is slow: the next of another provider. It is
// 0 if the request is not hedged: hedging is off, or by its hint, no other candidate is left, or the request must not run twice.
func (v *View) HedgeAt() int {
	if !Hedges(v.Config, &v.Hints) || !v.mayRunTwice() {
		return 0
	}
	first := &v.Order[0]
	at := slices.IndexFunc(v.Order, func(to policy.Resolution) bool { return to.Provider != first.Provider })
	if at < 0 || v.hasEffectsAt(first) || v.hasEffectsAt(&v.Order[at]) {
		return 0
	}
	return at
}

// Hedges reports whether requests with these hints are hedged if their candidates and content allow it.
func Hedges(c *runtime.Config, h *policy.Hints) bool {
	return c.Hedging.After > 0 && c.MaxRetries > 0 && !h.NoHedge
}

// mayRunTwice reports whether the request may be sent to two providers at the same time: it is a generation that the gateway pays for by its providers'
// bills, and it neither stores anything, nor lets the provider run tools.
func (v *View) mayRunTwice() bool {
	r := v.Request
	return r.Op == chat.Generate && !v.Deferred && !v.DirectKey && !v.CallersKey && !v.OwnKey.IsSet() && !v.PaysItself && !v.PaysFor(v.Order) &&
		v.Rounds() == 0 && v.AnyProvider() && !WantsSearch(r) && !hasEffects(&r.Doc)
}

// hasEffectsAt reports whether a call of a candidate has effects besides its answer: its provider stores the answer, runs tools, or attests it.
func (v *View) hasEffectsAt(to *policy.Resolution) bool {
	if p, _ := v.Attests(to); p != nil || v.Seals(to) != nil || v.StoredAt(to) {
		return true
	}
	return slices.ContainsFunc(v.Config.Extras(v.Request, to), func(e provider.Extra) bool { return e.By != provider.PerTier })
}

// effects are the members with which a request makes its provider run or store something, or answer with more than text.
var effects = [...]string{
	"mcp_servers", "container", "store", "background", "web_search_options", "plugins", "audio", "modalities", "search_parameters", "enable_search", "venice_parameters",
}

// hasEffects reports whether the body has such a member, or a tool that is not the client's own function.
func hasEffects(doc *jsonx.Doc) bool {
	for _, name := range effects {
		if v := doc.Get(name); !v.IsNull() {
			if b, ok := v.Bool(); !ok || b {
				return true
			}
		}
	}
	for _, config := range [...]string{"generationConfig", "generation_config"} {
		if c := doc.Get(config); c.Get("responseModalities").Exists() || c.Get("response_modalities").Exists() {
			return true
		}
	}
	for _, tool := range doc.Get("tools").Each {
		if !isFunction(tool) {
			return true
		}
	}
	return false
}

// isFunction reports whether a tool is a function that the client runs, in any of the formats.
func isFunction(tool jsonx.Value) bool {
	if kind := tool.Get("type"); kind.Exists() {
		return kind.Equal("function") || kind.Equal("custom")
	}
	if tool.Get("name").Exists() { // Anthropic's
		return true
	}
	functions := false
	for key := range tool.Members { // Gemini's
		if string(key) != "functionDeclarations" && string(key) != "function_declarations" {
			return false
		}
		functions = true
	}
	return functions
}
