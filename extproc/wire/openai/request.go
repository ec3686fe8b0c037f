package openai

import (
	"math"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// maxChoices is how many answers a client may ask for: a count beyond it is a mistake, and would be multiplied.
const maxChoices = 128

// Decode reads a Chat Completions request. It looks at the members the gateway acts on; the conversation is parsed
// when something asks for it. The gateway's own hints are marked for removal.
func (Dialect) Decode(op chat.Op, _ header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := Names.Scan(body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	r := &chat.Request{Dialect: chat.OpenAI, Op: op, Choices: 1, Query: query, Doc: doc, Read: readConversation}
	r.InputTokens, r.MostInput = wire.InputTokens(doc.Stats), wire.MostInputTokens(&doc)
	for i := range doc.Members {
		m := &doc.Members[i]
		if err := readMember(r, m.Key, jsonx.Value{Raw: body[m.Start:m.End], At: m.Start}); err != nil {
			return nil, err
		}
	}
	if r.Model == "" {
		return nil, wire.Invalid("model", "model is required")
	}
	if doc.Find("messages") < 0 {
		return nil, wire.Invalid("messages", "messages is required")
	}
	wire.RemoveHints(r)
	return r, nil
}

// ReadScalars reads some top-level members of a request, as Decode does. The choices are one where nothing is said. The error is a fault.
func ReadScalars(r *chat.Request, keys ...string) error {
	r.Choices = max(r.Choices, 1)
	for _, key := range keys {
		v := r.Doc.Get(key)
		if !v.Exists() {
			continue
		}
		if err := readMember(r, key, v); err != nil {
			return err
		}
	}
	if r.Model == "" {
		return wire.Invalid("model", "model is required")
	}
	return nil
}

// readMember reads one top-level member of a request. Null counts as absent, as it does for OpenAI.
func readMember(r *chat.Request, key string, v jsonx.Value) error {
	if v.IsNull() && key != "model" && key != "messages" {
		return nil
	}
	switch key {
	case "model":
		return readModel(r, v)
	case "messages":
		return checkMessages(v)
	case "stream":
		on, ok := v.Bool()
		if !ok {
			return wire.WrongKind(key, "a boolean", v)
		}
		r.Stream = on
	case "stream_options":
		return readStreamOptions(r, v)
	case "max_tokens", "max_completion_tokens":
		return readMaxTokens(r, key, v)
	case "n":
		n, ok := v.Int()
		if !ok || n < 1 || n > maxChoices {
			return wire.Invalid(key, "n must be an integer between 1 and %d", maxChoices)
		}
		r.Choices = int(n)
	case "reasoning_effort":
		return readEffort(r, key, v)
	case "reasoning":
		return readReasoning(r, v)
	case "thinking":
		kind := v.Get("type")
		r.Thinking = r.Thinking || kind.Equal("enabled") || kind.Equal("adaptive")
		_, err := wire.ReadBudget("thinking.budget_tokens", v.Get("budget_tokens"))
		return err
	}
	return nil
}

// ReadModel is the model that a request of any of OpenAI's formats asks for. The error is a fault.
func ReadModel(doc *jsonx.Doc) (string, error) {
	var r chat.Request
	v := doc.Get("model")
	if !v.Exists() {
		return "", wire.Invalid("model", "model is required")
	}
	err := readModel(&r, v)
	return r.Model, err
}

func readModel(r *chat.Request, v jsonx.Value) (err error) {
	r.Model, err = wire.ModelName(v)
	if err == nil && r.Model == "" {
		return wire.Invalid("model", "model must not be empty")
	}
	return err
}

func checkMessages(v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("messages", "an array", v)
	}
	for range v.Each {
		return nil
	}
	return wire.Invalid("messages", "messages must not be empty")
}

func readStreamOptions(r *chat.Request, v jsonx.Value) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind("stream_options", "an object", v)
	}
	usage := v.Get("include_usage")
	on, ok := usage.Bool()
	if !ok && !usage.IsNull() {
		return wire.WrongKind("stream_options.include_usage", "a boolean", usage)
	}
	r.StreamUsage = on
	return nil
}

func readMaxTokens(r *chat.Request, key string, v jsonx.Value) error {
	n, ok := v.Int()
	if !ok || n < 1 || n > math.MaxInt32 {
		return wire.Invalid(key, "%s must be a positive integer", key)
	}
	r.MaxTokens = max(r.MaxTokens, int(n)) // of both, a provider may heed either
	return nil
}

func readEffort(r *chat.Request, key string, v jsonx.Value) error {
	effort, ok := v.Str()
	if !ok {
		return wire.WrongKind(key, "a string", v)
	}
	r.Thinking = r.Thinking || effort != effortNone
	r.HighEffort = r.HighEffort || effort == "high" || effort == "xhigh" || effort == effortMax
	return nil
}

// readReasoning reads the object by which OpenRouter and others ask for reasoning.
func readReasoning(r *chat.Request, v jsonx.Value) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind("reasoning", "an object", v)
	}
	if on, ok := v.Get("enabled").Bool(); ok && on {
		r.Thinking = true
	}
	n, err := wire.ReadBudget("reasoning.max_tokens", v.Get("max_tokens"))
	if err != nil {
		return err
	}
	r.Thinking = r.Thinking || n > 0
	if effort := v.Get("effort"); !effort.IsNull() {
		return readEffort(r, "reasoning.effort", effort)
	}
	return nil
}
