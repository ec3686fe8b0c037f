package wire

import (
	"math"
	"strconv"

	"bardo.money/gateway/extproc/chat"
)

// What a model is told in words where its provider has no parameter for it.
const (
	ThinkGuidance  = "Think through this step by step. Show your reasoning."
	DirectGuidance = "Answer directly. Do not explain your reasoning."
)

// ReasoningGuidance is what a model that takes no effort is told instead; "" where an effort is nothing to speak of.
func ReasoningGuidance(effort string) string {
	switch effort {
	case "none":
		return DirectGuidance
	case "high", "xhigh", "max":
		return ThinkGuidance
	}
	return ""
}

// Budgets are the efforts in tokens of thinking, for providers that take those.
var Budgets = map[string]int{"minimal": 1024, "low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768, "max": 65536}

// Became names a parameter of a profile that is said in another way: min_p:0.1->top_p:0.9. With nothing after it, it is lost.
func Became(name, value, instead string) string {
	if instead == "" {
		return name
	}
	return name + ":" + value + "->" + instead
}

// Draws is how words are drawn where a provider lacks what a profile asks for (D-25): min_p is about top_p = 1 - min_p, and top_k,
// where neither of the others is said, about top_p = 0.9. own is what the client says itself, which stays as it is. It returns what to
// say instead, and the names of what became of the rest.
func Draws(own, said chat.Params, takesTopK, takesMinP, takesTopP bool) (out chat.Params, lost []string) {
	out = said
	approximate := func(name, value, topP string) {
		if out.TopP != "" || !takesTopP {
			lost = append(lost, name)
			return
		}
		out.TopP = topP
		lost = append(lost, Became(name, value, "top_p:"+topP))
	}
	if said.MinP != own.MinP && !takesMinP {
		out.MinP = ""
		approximate("min_p", said.MinP, rest(said.MinP))
	}
	if said.TopK != own.TopK && !takesTopK {
		out.TopK = ""
		if said.MinP != "" {
			lost = append(lost, "top_k")
		} else {
			approximate("top_k", said.TopK, "0.9")
		}
	}
	return out, lost
}

// rest is one minus a number, without the noise of its last digits.
func rest(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "1"
	}
	return strconv.FormatFloat(math.Round((1-f)*1e6)/1e6, 'f', -1, 64)
}
