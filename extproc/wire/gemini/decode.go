package gemini

import (
	"math"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// Limits of a client's request. Each choice multiplies the cost.
const (
	maxChoices = 128
	highBudget = 16384 // thinking tokens from which a request has high effort
)

// Decode reads a generateContent request. It reads the members that the gateway acts on; the conversation is parsed when it is needed. The
// gateway's own hints are marked for removal. The query is not passed to providers.
func (d Dialect) Decode(op chat.Op, _ header.List, _ string, body []byte) (*chat.Request, error) {
	doc, err := Names.Scan(body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	r := &chat.Request{
		Dialect: chat.Gemini, Op: op, Choices: 1, Model: d.model, Stream: d.stream && op == chat.Generate,
		InputTokens: wire.InputTokens(doc.Stats), MaxInput: wire.MaxInputTokens(&doc), Doc: doc, Read: readConversation,
	}
	seen := 0
	for name, v := range wire.TopMembers(&doc) {
		key := camel([]byte(name))
		if key == "contents" || key == "generateContentRequest" {
			seen++
		}
		if err := readMember(r, key, v); err != nil {
			return nil, err
		}
	}
	if err := checkModel(r.Model); err != nil {
		return nil, err
	}
	if seen == 0 {
		return nil, wire.Invalid("contents", "contents is required")
	}
	if err := wire.RemoveHints(r); err != nil {
		return nil, err
	}
	return r, nil
}

// readMember reads one top-level member of a request. Null counts as absent.
func readMember(r *chat.Request, key string, v jsonx.Value) error {
	switch {
	case key == "contents":
		return checkContents(v)
	case v.IsNull():
		return nil
	case key == "model" && r.Model == "":
		name, ok := v.Str()
		if !ok {
			return wire.WrongKind("model", "a string", v)
		}
		r.Model = strings.TrimPrefix(name, "models/")
	case key == "generationConfig":
		return readLimits(r, v)
	}
	return nil
}

func checkModel(name string) error {
	if name == "" {
		return wire.Invalid("model", "the path must name a model: "+Root+"/MODEL:"+generate)
	}
	return wire.CheckModelName(name)
}

func checkContents(v jsonx.Value) error {
	if v.Kind() == jsonx.Object { // the API accepts one content instead of a list
		return nil
	}
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("contents", "an array", v)
	}
	for range v.Each {
		return nil
	}
	return wire.Invalid("contents", "contents must not be empty")
}

// readLimits reads the members of the generationConfig that the gateway acts on.
func readLimits(r *chat.Request, config jsonx.Value) error {
	if config.Kind() != jsonx.Object {
		return wire.WrongKind("generationConfig", "an object", config)
	}
	for key, v := range config.Members {
		name := camel(key)
		if v.IsNull() {
			continue
		}
		switch name {
		case "maxOutputTokens":
			n, ok := integer(v)
			if !ok || n < 1 || n > math.MaxInt32 {
				return wire.Invalid("generationConfig."+string(key), "maxOutputTokens must be a positive integer")
			}
			r.MaxTokens = int(n)
		case "candidateCount":
			n, ok := integer(v)
			if !ok || n < 1 || n > maxChoices {
				return wire.Invalid("generationConfig."+string(key), "candidateCount must be an integer between 1 and %d", maxChoices)
			}
			r.Choices = int(n)
		case "thinkingConfig":
			if err := readThinking(r, "generationConfig."+string(key), v); err != nil {
				return err
			}
		}
	}
	return nil
}

func readThinking(r *chat.Request, at string, v jsonx.Value) error {
	tokens := get(v, "thinkingBudget")
	budget, ok := integer(tokens)
	if !ok && !tokens.IsNull() {
		return wire.Invalid(at+".thinkingBudget", "%s.thinkingBudget must be a whole number of tokens", at)
	}
	shown, _ := get(v, "includeThoughts").Bool()
	level, _ := get(v, "thinkingLevel").Str()
	r.Thinking = shown || budget > 0 || level != ""
	r.HighEffort = budget >= highBudget || strings.EqualFold(level, "high") || strings.EqualFold(level, "xhigh")
	return nil
}

// integer reads an integer, which may be in a string: the API's JSON mapping writes large integers as strings.
func integer(v jsonx.Value) (int64, bool) {
	if v.Kind() == jsonx.String {
		s, _ := v.Str()
		v = jsonx.Value{Raw: jsonx.Raw(s)}
	}
	return v.Int()
}
