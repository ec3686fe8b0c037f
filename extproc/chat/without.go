package chat

import (
	"slices"
	"strings"
)

// refusals are providers' names of a profile's parameters in their refusals, ours first.
var refusals = [][]string{
	{"temperature"},
	{"top_p", "topP"},
	{"top_k", "topK"},
	{"min_p", "minP"},
	{"presence_penalty", "presencePenalty"},
	{"frequency_penalty", "frequencyPenalty"},
	{"seed"},
	{"prompt_cache_key"},
	{"prediction"},
	{"effort", "reasoning_effort", "reasoning", "thinking", "thinking_budget", "enable_thinking", "thinking_level", "thinkingConfig", "chat_template_kwargs"},
}

// Refused returns the parameters of the profile that a provider's error refuses, by our names. A nil profile has none.
func (p *Profile) Refused(e *ProviderError) (names []string) {
	if p == nil || e == nil {
		return nil
	}
	for _, words := range refusals {
		if p.sets(words[0]) && slices.ContainsFunc(words, e.mentions) {
			names = append(names, words[0])
		}
	}
	return names
}

// mentions reports whether an error is about a parameter: it names it, or its message contains the word.
func (e *ProviderError) mentions(word string) bool {
	if e.Param != "" {
		first, _, _ := strings.Cut(e.Param, ".")
		return first == word || strings.HasSuffix(e.Param, "."+word)
	}
	rest := e.Message
	for {
		i := strings.Index(rest, word)
		if i < 0 {
			return false
		}
		end := i + len(word)
		if (i == 0 || !isWordByte(rest[i-1])) && (end == len(rest) || !isWordByte(rest[end])) {
			return true
		}
		rest = rest[end:]
	}
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// sets reports whether the profile sets a parameter.
func (p *Profile) sets(name string) bool {
	if name == "effort" {
		return p.Default.setsReasoning() || p.Locked.setsReasoning()
	}
	i := slices.IndexFunc(textParams, func(f textParam) bool { return f.name == name })
	return i >= 0 && (*textParams[i].at(&p.Default) != "" || *textParams[i].at(&p.Locked) != "")
}

// Without returns the profile without some of its parameters, by the names that Refused returns.
func (p *Profile) Without(names []string) *Profile {
	if p == nil || len(names) == 0 {
		return p
	}
	out := *p
	for _, params := range []*Params{&out.Default, &out.Locked} {
		for _, f := range textParams {
			if slices.Contains(names, f.name) {
				*f.at(params) = ""
			}
		}
		if slices.Contains(names, "web_search") {
			params.WebSearch = nil
		}
		if slices.Contains(names, "effort") {
			params.Effort, params.ThinkingBudget, params.Thinking = "", 0, ThinkingUnset
		}
	}
	return &out
}
