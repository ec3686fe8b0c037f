package wire

import (
	"math"
	"strconv"

	"bardo.money/gateway/extproc/chat"
)

// Prompt text for models whose provider has no parameter for thinking.
const (
	ThinkGuidance  = "Think through this step by step. Show your reasoning."
	DirectGuidance = "Answer directly. Do not explain your reasoning."
)

// ReasoningGuidance returns the prompt text that replaces an effort; "" if the effort needs none.
func ReasoningGuidance(effort string) string {
	switch effort {
	case "none":
		return DirectGuidance
	case "high", "xhigh", "max":
		return ThinkGuidance
	}
	return ""
}

// Budgets maps efforts to thinking budgets in tokens.
var Budgets = map[string]int{"minimal": 1024, "low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768, "max": 65536}

// Replaced returns the degraded name of a profile's parameter that is expressed in another way: min_p:0.1->top_p:0.9. instead is empty if
// the parameter is dropped.
func Replaced(name, value, instead string) string {
	if instead == "" {
		return name
	}
	return name + ":" + value + "->" + instead
}

// ApproximateSampling replaces a profile's sampling parameters that a provider lacks (D-25): min_p becomes about top_p = 1 - min_p, and
// top_k, if neither of the others is set, about top_p = 0.9. own are the client's parameters, which stay; wanted are these with the
// profile's. It returns the parameters to send, and the degraded names.
func ApproximateSampling(own, wanted chat.Params, takesTopK, takesMinP, takesTopP bool) (out chat.Params, degraded []string) {
	out = wanted
	approximate := func(name, value, topP string) {
		if out.TopP != "" || !takesTopP {
			degraded = append(degraded, name)
			return
		}
		out.TopP = topP
		degraded = append(degraded, Replaced(name, value, "top_p:"+topP))
	}
	if wanted.MinP != own.MinP && !takesMinP {
		out.MinP = ""
		approximate("min_p", wanted.MinP, oneMinus(wanted.MinP))
	}
	if wanted.TopK != own.TopK && !takesTopK {
		out.TopK = ""
		if wanted.MinP != "" {
			degraded = append(degraded, "top_k")
		} else {
			approximate("top_k", wanted.TopK, "0.9")
		}
	}
	return out, degraded
}

// oneMinus returns one minus a number, rounded to six digits.
func oneMinus(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "1"
	}
	return strconv.FormatFloat(math.Round((1-f)*1e6)/1e6, 'f', -1, 64)
}
