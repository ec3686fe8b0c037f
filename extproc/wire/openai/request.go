package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// Decode reads a Chat Completions request. It reads the members that the gateway acts on; the conversation is parsed when it is needed. The
// gateway's own hints are marked for removal.
func (Dialect) Decode(op chat.Op, _ header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := Names.Scan(body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	r := &chat.Request{Dialect: chat.OpenAI, Op: op, Choices: 1, Query: query, Doc: doc, Read: readConversation}
	r.InputTokens, r.MaxInput = wire.InputTokens(doc.Stats), wire.MaxInputTokens(&doc)
	for key, v := range wire.TopMembers(&doc) {
		if err := readMember(r, key, v); err != nil {
			return nil, err
		}
	}
	if r.Model == "" {
		return nil, wire.Invalid("model", "model is required")
	}
	if doc.Find("messages") < 0 {
		return nil, wire.Invalid("messages", "messages is required")
	}
	if err := wire.RemoveHints(r); err != nil {
		return nil, err
	}
	return r, nil
}

// ReadScalars reads some top-level members of a request, as Decode does. The default number of choices is 1. The error is a fault.
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

// readMember reads one top-level member of a request. Null counts as absent, as for OpenAI.
func readMember(r *chat.Request, key string, v jsonx.Value) (err error) {
	if v.IsNull() && key != "model" && key != "messages" {
		return nil
	}
	switch key {
	case "model":
		r.Model, err = wire.ReadModel(v)
	case "messages":
		return wire.CheckMessages(v)
	case "stream":
		r.Stream, err = wire.ReadFlag(key, v)
	case "stream_options":
		return readStreamOptions(r, v)
	case "max_tokens", "max_completion_tokens":
		return readMaxTokens(r, key, v)
	case "n":
		n, ok := v.Int()
		if !ok || n < 1 || n > chatcompletion.MaxChoices {
			return wire.Invalid(key, "n must be an integer between 1 and %d", chatcompletion.MaxChoices)
		}
		r.Choices = int(n)
	case "reasoning_effort":
		return wire.ReadEffort(r, key, v)
	case "reasoning":
		return readReasoning(r, v)
	case "thinking":
		kind := v.Get("type")
		r.Thinking = r.Thinking || kind.Equal("enabled") || kind.Equal("adaptive")
		_, err = wire.ReadBudget("thinking.budget_tokens", v.Get("budget_tokens"))
	}
	return err
}

// ReadModel reads the name of the model in a request of any of OpenAI's formats. The error is a fault.
func ReadModel(doc *jsonx.Doc) (string, error) {
	v := doc.Get("model")
	if !v.Exists() {
		return "", wire.Invalid("model", "model is required")
	}
	return wire.ReadModel(v)
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
	n, err := wire.ReadLimit(key, v)
	r.MaxTokens = max(r.MaxTokens, n) // a provider may apply either of the two members
	return err
}

// readReasoning reads OpenRouter's object for reasoning.
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
		return wire.ReadEffort(r, "reasoning.effort", effort)
	}
	return nil
}
