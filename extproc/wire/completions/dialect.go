package completions

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// Dialect is OpenAI's legacy Completions format: text for a prompt. The zero value is ready.
type Dialect struct{}

var (
	_ wire.Dialect = Dialect{}
	_ wire.Shaper  = Dialect{}
)

// Name is chat.Completions.
func (Dialect) Name() chat.Dialect { return chat.Completions }

// Decode reads a request. The request is for providers that have the endpoint; its Turn is a Chat Completions request for the others, if it
// can be expressed as one.
func (Dialect) Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := openai.Names.Scan(body)
	if err != nil {
		return openai.Dialect{}.Decode(op, h, query, body) // it reports the error
	}
	prompts, err := checkPrompt(doc.Get("prompt"))
	if err != nil {
		return nil, err
	}
	r := &chat.Request{Dialect: chat.Completions, Op: op, Query: query, Doc: doc, Read: conversation}
	if err := openai.ReadScalars(r, "model", "stream", "stream_options", "n", "reasoning_effort", "reasoning", "thinking"); err != nil {
		return nil, err
	}
	best, err := readBest(&doc)
	if err != nil {
		return nil, err
	}
	if err := readLimit(r); err != nil {
		return nil, err
	}
	r.Prompts = max(prompts.Count, 1) + embedded(doc.Get("prompt_embeds"))
	r.InputTokens, r.MaxInput = prompts.Estimate(), prompts.Bound(wire.MaxInputTokens(&doc))
	r.Turn, r.TurnError = turn(r, best, h)
	r.Choices = max(r.Choices, best) * r.Prompts
	r.Renew = func(changed *chat.Request) error {
		decoded, err := (Dialect{}).Decode(op, h, query, changed.Doc.Bytes)
		if err == nil {
			changed.InputTokens, changed.MaxInput, changed.Turn, changed.TurnError = decoded.InputTokens, decoded.MaxInput, decoded.Turn, decoded.TurnError
		}
		return err
	}
	if err := wire.RemoveHints(r); err != nil {
		return nil, err
	}
	return r, nil
}

// conversation returns the conversation of the request's Turn. The error is a fault if the request cannot be expressed as one.
func conversation(r *chat.Request) (*chat.Conversation, error) {
	if r.Turn == nil {
		return nil, r.TurnError
	}
	return r.Turn.Conversation()
}

// readLimit reads the limit of each answer. Zero is allowed: it requests only the log probabilities of the prompt.
func readLimit(r *chat.Request) error {
	if v := r.Doc.Get(openai.MaxTokens); string(v.Raw) != "0" {
		if err := openai.ReadScalars(r, openai.MaxTokens); err != nil {
			return err
		}
	}
	return openai.ReadScalars(r, openai.MaxCompletionTokens)
}

// readBest reads how many answers the provider generates for each prompt, of which it returns the best; the default is 1.
func readBest(doc *jsonx.Doc) (int, error) {
	const key, maxBest = "best_of", 128
	v := doc.Get(key)
	if v.IsNull() {
		return 1, nil
	}
	n, ok := v.Int()
	if !ok || n < 1 || n > maxBest {
		return 0, wire.Invalid(key, "%s must be an integer between 1 and %d", key, maxBest)
	}
	return int(n), nil
}

// turn returns the Chat Completions request with the prompt as its only user message, or the reason why there is none.
func turn(r *chat.Request, best int, h header.List) (*chat.Request, error) {
	doc := &r.Doc
	prompt, err := onlyPrompt(doc.Get("prompt"))
	if err != nil {
		return nil, err
	}
	if best > r.Choices {
		return nil, unsupportedMember("best_of")
	}
	for _, key := range [...]string{"suffix", "echo", "logprobs"} {
		if isSet(doc.Get(key)) {
			return nil, unsupportedMember(key)
		}
	}
	var e jsonx.Edits
	for _, key := range [...]string{"suffix", "echo", "best_of", "logprobs", "prompt"} {
		e.Delete(doc, key)
	}
	messages := append([]byte(`[{"role":"user","content":`), prompt...)
	e.Set(doc, "messages", append(messages, `}]`...))
	return openai.Dialect{}.Decode(r.Op, h, r.Query, e.AppendTo(nil, doc))
}

// isSet reports whether a member differs from its default. For logprobs, zero does: the log probability of the chosen token.
func isSet(v jsonx.Value) bool {
	switch string(v.Raw) {
	case "", "null", "false", `""`:
		return false
	}
	return true
}

// checkPrompt validates a prompt and measures it.
func checkPrompt(v jsonx.Value) (p wire.Prompts, err error) {
	if v.IsNull() {
		return p, wire.Invalid("prompt", "prompt is required, or messages")
	}
	if v.Kind() != jsonx.String && v.Kind() != jsonx.Array {
		return p, wire.WrongKind("prompt", "a string or an array", v)
	}
	if p = wire.MeasurePrompts(v); p.Empty() {
		return p, wire.Invalid("prompt", "prompt must not be empty")
	}
	return p, nil
}

// embedded counts the prompts that are given as vectors, which some servers accept.
func embedded(v jsonx.Value) (n int) {
	switch v.Kind() { //nolint:exhaustive // no other kind holds prompts
	case jsonx.String:
		n = 1
	case jsonx.Array:
		for range v.Each {
			n++
		}
	}
	return n
}

// onlyPrompt returns the prompt as a JSON string. A list may have one element. A list of numbers is the tokens of one model, which other
// models cannot read.
func onlyPrompt(v jsonx.Value) (jsonx.Raw, error) {
	if v.Kind() == jsonx.Array {
		n := 0
		var only jsonx.Value
		for _, e := range v.Each {
			only = e
			n++
		}
		if n == 1 {
			v = only
		}
	}
	if v.Kind() == jsonx.String && len(v.Raw) > len(`""`) {
		return v.Raw, nil
	}
	return nil, unsupportedMember("prompt")
}

// unsupportedMember returns the fault for a member that a conversation cannot express.
func unsupportedMember(member string) error {
	if member == "prompt" {
		return wire.Invalid(member, "prompt must be one string: no provider of this model serves /v1/completions itself, and a turn of a conversation is "+
			"one text; send a request for each prompt, and no tokens")
	}
	return wire.Invalid(member, "%s is not supported for this model: none of its providers serves /v1/completions, and chat completions have no equivalent", member)
}

// Error returns the body of a JSON error, which is the same in all of OpenAI's formats.
func (Dialect) Error(f *fault.Fault, requestID string) []byte {
	return openai.Dialect{}.Error(f, requestID)
}

// NewEncoder returns the encoder of one answer for a client of the legacy format.
func (Dialect) NewEncoder(o wire.Options) wire.Encoder {
	e := envelope{opts: o, id: "cmpl-" + strings.TrimPrefix(o.RequestID, "req_"), model: o.Model}
	e.passes = o.Same && o.Request != nil && o.Request.Dialect == chat.Completions
	if o.Stream {
		return &streamEncoder{envelope: e}
	}
	return &bodyEncoder{envelope: e}
}

// Shape changes the answer format of a request that was converted to Chat Completions.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	return openai.Dialect{}.Shape(req, s)
}
