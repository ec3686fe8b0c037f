package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// form is a format of providers' model lists.
type form struct {
	model       func(raw json.RawMessage) (modelfile.Model, bool) // ok is false if the entry is not a chat model
	expressible []policy.Feature                                  // features that the format can express
}

// The formats of model lists, by their names in the configuration.
const (
	FormOpenAI     = "openai"
	FormOpenRouter = "openrouter"
	FormVenice     = "venice"
	FormBlockRun   = "blockrun"
	FormBardo      = "bardo"
)

var forms = map[string]form{
	FormOpenAI: {openAIModel, nil},
	FormOpenRouter: {openRouterModel, []policy.Feature{
		policy.Tools, policy.StructuredOutputs, policy.Vision, policy.VisibleThinking, policy.LowEffort, policy.PromptCaching,
		policy.Audio, policy.Video, policy.Documents,
	}},
	FormVenice: {veniceModel, []policy.Feature{
		policy.Tools, policy.StructuredOutputs, policy.Vision, policy.VisibleThinking, policy.LowEffort, policy.PromptCaching, policy.WebSearch,
		policy.Privacy, policy.NoLog, policy.TEEAttested, policy.EndToEndEncryption, policy.Audio, policy.Video,
	}},
	FormBardo:    {bardoModel, policy.Features()},
	FormBlockRun: {blockRunModel, []policy.Feature{policy.Vision, policy.Video}}, // it names only the first
}

// Limits of a list. What exceeds them is left out.
const (
	maxListed   = 5000 // models
	maxListedID = 200  // bytes of an id
)

// Parse reads a provider's list of models, the body of its answer to GET /models. Entries that cannot be read, or are not chat models, are left out.
// A list without any other entry is an error, because a provider without models is more likely broken than empty. It is pure; its cost is bounded by
// the size of the body.
func Parse(format string, body []byte) ([]modelfile.Model, error) {
	f, ok := forms[format]
	if !ok {
		return nil, fmt.Errorf("%q is no known form of a list of models", format)
	}
	raw, err := elements(body)
	if err != nil {
		return nil, fmt.Errorf("list of models: %w", err)
	}
	var out []modelfile.Model
	seen := map[string]bool{}
	for _, r := range raw {
		m, ok := f.model(r)
		if !ok || !listable(m.ID) || seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		if out = append(out, m); len(out) == maxListed {
			break
		}
	}
	if len(out) == 0 {
		return nil, errors.New("list of models: it names none")
	}
	return out, nil
}

// elements returns the entries of a list: {"data": […]}, {"models": […]} or […].
func elements(body []byte) (raw []json.RawMessage, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		err = json.Unmarshal(body, &raw)
		return raw, err
	}
	var list struct{ Data, Models []json.RawMessage }
	err = json.Unmarshal(body, &list)
	return slices.Concat(list.Data, list.Models), err
}

// listable reports whether an id can be used in URLs, headers and requests.
func listable(id string) bool {
	return id != "" && len(id) <= maxListedID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// amount is a number as written, as a string or a number; "" if absent.
type amount string

// UnmarshalJSON accepts any value; one that is not a number counts as absent.
func (a *amount) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if _, _, ok := decimal(text); ok {
		*a = amount(text)
	}
	return nil
}

// tokenCount is a number of tokens; 0 if absent or not plausible.
type tokenCount int

// UnmarshalJSON accepts any value; one that is not a number counts as absent.
func (w *tokenCount) UnmarshalJSON(b []byte) error {
	const most = 1_000_000_000
	if n, ok := scaled(strings.Trim(string(b), `"`), 0, most); ok {
		*w = tokenCount(n)
	}
	return nil
}

// stringList is a list of words; any other value counts as absent.
type stringList []string

// UnmarshalJSON accepts any value.
func (w *stringList) UnmarshalJSON(b []byte) error {
	var list []string
	if json.Unmarshal(b, &list) == nil {
		*w = list
	}
	return nil
}

func (w stringList) has(one ...string) bool {
	return slices.ContainsFunc(one, func(s string) bool { return slices.Contains(w, s) })
}

// first returns the first number that is set.
func first(ws ...tokenCount) int {
	for _, w := range ws {
		if w > 0 {
			return int(w)
		}
	}
	return 0
}

// effortOrder orders the efforts of all providers.
var effortOrder = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// efforts returns the known efforts of a list, lowest first; nil if there are none.
func efforts(words stringList) []string {
	var out []string
	for _, e := range effortOrder {
		if slices.ContainsFunc(words, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), e) }) {
			out = append(out, e)
		}
	}
	return out
}

// claim is what an entry states about a feature.
type claim struct {
	feature policy.Feature
	holds   bool
}

// features returns those that hold; an empty list, not nil, if there are none.
func features(claims ...claim) []policy.Feature {
	out := []policy.Feature{}
	for _, c := range claims {
		if c.holds && !slices.Contains(out, c.feature) {
			out = append(out, c.feature)
		}
	}
	return out
}

// nativeIf returns the tool format of a model whose provider's API accepts tools: native, whatever the model's own format is.
func nativeIf(takesTools bool) string {
	if takesTools {
		return native
	}
	return ""
}

// tokens returns a price per token, nil unless input and output are known.
func tokens(p modelfile.Price) *modelfile.Price {
	if p.Input == nil || p.Output == nil {
		return nil
	}
	return &p
}

// openAIModel reads an entry of OpenAI's form, with the additional members of vLLM and similar servers. It has no price.
func openAIModel(raw json.RawMessage) (modelfile.Model, bool) {
	var m struct {
		ID            string
		MaxModelLen   tokenCount `json:"max_model_len"`
		ContextLength tokenCount `json:"context_length"`
		ContextWindow tokenCount `json:"context_window"`
	}
	err := json.Unmarshal(raw, &m)
	return modelfile.Model{ID: m.ID, Context: first(m.MaxModelLen, m.ContextLength, m.ContextWindow)}, err == nil
}
