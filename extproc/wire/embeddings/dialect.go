// Package embeddings is OpenAI's format of embeddings, on both sides: vectors for texts. Requests to and answers from a provider of this
// format keep their bytes, except for the model's name and the gateway's own member.
package embeddings

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// Dialect is the client's side of the format. The zero value is ready.
type Dialect struct{}

var _ wire.Dialect = Dialect{}

// Name is chat.Embeddings.
func (Dialect) Name() chat.Dialect { return chat.Embeddings }

// Names is the form of a request: the members of OpenAI's API, and of compatible servers.
var Names = func() *jsonx.Form {
	f := jsonx.NewForm(
		"model", "input", "encoding_format", "dimensions", "user", "input_type", "truncate_prompt_tokens", "priority", "service_tier",
		"type", "text", "content", "image_url", "url", "detail", "messages", "role", wire.HintKey,
		// Of servers that charge for more than tokens.
		"models", "provider", "route", "plugins", "preset", "transforms", "fallbacks", "background", "speed", "tools", "modalities",
		"web_search_options", "search_parameters", "enable_search")
	return f.Clone().Add(wire.Hints, wire.HintKey)
}()

// Decode reads a request. It reads the members that the gateway acts on, and measures the input.
func (Dialect) Decode(op chat.Op, _ header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := Names.Scan(body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	r := &chat.Request{Dialect: chat.Embeddings, Op: op, Choices: 1, Query: query, Doc: doc, Read: noConversation}
	if r.Model, err = openai.ReadModel(&doc); err != nil {
		return nil, err
	}
	n, err := checkInput(doc.Get("input"))
	if err != nil {
		return nil, err
	}
	r.InputTokens, r.MaxInput = n.Estimate(), n.Bound(wire.MaxInputTokens(&doc))
	r.Renew = measure
	if err := wire.RemoveHints(r); err != nil {
		return nil, err
	}
	return r, nil
}

// measure counts the tokens of a changed request.
func measure(r *chat.Request) error {
	n, err := checkInput(r.Doc.Get("input"))
	r.InputTokens, r.MaxInput = n.Estimate(), n.Bound(wire.MaxInputTokens(&r.Doc))
	return err
}

// noConversation returns the empty conversation of a request without one.
func noConversation(*chat.Request) (*chat.Conversation, error) { return &chat.Conversation{}, nil }

// checkInput validates and measures an input: one or more texts or lists of tokens, or anything else that a provider may embed.
func checkInput(v jsonx.Value) (n wire.Prompts, err error) {
	switch v.Kind() {
	case jsonx.String:
	case jsonx.Array:
	default:
		if !v.Exists() {
			return n, wire.Invalid("input", "input is required")
		}
		return n, wire.WrongKind("input", "a string or an array", v)
	}
	if n = wire.MeasurePrompts(v); n.Empty() {
		return n, wire.Invalid("input", "input must not be empty")
	}
	return n, nil
}

// Error returns the body of a JSON error, which is the same in all of OpenAI's formats.
func (Dialect) Error(f *fault.Fault, requestID string) []byte {
	return openai.Dialect{}.Error(f, requestID)
}

// NewEncoder returns the encoder of one answer.
func (Dialect) NewEncoder(o wire.Options) wire.Encoder { return &encoder{model: o.Model} }

// encoder writes the provider's own bytes, with the client's name of the model.
type encoder struct {
	wire.DegradedNames
	model string
	body  []byte
}

// Append keeps the body; the End event writes it.
func (e *encoder) Append(dst []byte, ev *chat.Event) []byte {
	if ev.Raw != nil {
		e.body = wire.AppendRenamed(e.body[:0], ev.Raw, ev.ModelSpan, e.model)
	}
	if ev.Kind != chat.End {
		return dst
	}
	return append(dst, e.body...)
}

// Error writes nothing, because the answer is written in one piece.
func (*encoder) Error(dst []byte, _ *fault.Fault) []byte { return dst }
