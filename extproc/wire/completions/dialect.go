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

// Dialect is OpenAI's legacy Completions format: a prompt goes in, text comes out. The zero value is ready.
type Dialect struct{}

var (
	_ wire.Dialect = Dialect{}
	_ wire.Shaper  = Dialect{}
)

// Name is chat.Completions.
func (Dialect) Name() chat.Dialect { return chat.Completions }

// gone are the members that a conversation has no words for, besides the prompt. What they ask for is not done, and
// named. logprobs is a number here and a switch there.
var gone = [...]string{"suffix", "echo", "best_of", "logprobs"}

// Decode reads a request and makes it one of Chat Completions, with the prompt as the user's only turn. The request
// says that it is of that format, since providers are asked in it.
func (Dialect) Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := openai.Names.Scan(body)
	if err != nil {
		return openai.Dialect{}.Decode(op, h, query, body) // which says what is wrong
	}
	prompt, err := readPrompt(doc.Get("prompt"))
	if err != nil {
		return nil, err
	}
	var e jsonx.Edits
	var lost []string
	for _, key := range gone {
		if asks(doc.Get(key)) {
			lost = append(lost, key)
		}
		e.Delete(&doc, key)
	}
	e.Delete(&doc, "prompt")
	messages := append([]byte(`[{"role":"user","content":`), prompt...)
	e.Set(&doc, "messages", append(messages, `}]`...))
	r, err := openai.Dialect{}.Decode(op, h, query, e.AppendTo(nil, &doc))
	if err != nil {
		return nil, err
	}
	r.Lost = lost
	return r, nil
}

// asks reports whether a member asks for anything: null, false, zero, one and the empty string do not.
func asks(v jsonx.Value) bool {
	switch string(v.Raw) {
	case "", "null", "false", "0", "1", `""`:
		return false
	}
	return true
}

// readPrompt is the prompt as a JSON string. A list may hold one; a list of numbers is text that the caller has cut
// into some model's tokens, which no other model reads.
func readPrompt(v jsonx.Value) (jsonx.Raw, error) {
	if v.Kind() == jsonx.Array {
		var only jsonx.Value
		n := 0
		for _, e := range v.Each {
			only = e
			n++
		}
		switch {
		case n == 1:
			v = only
		case n > 1 && only.Kind() == jsonx.String:
			return nil, invalid("prompt must be one string: send a request for each prompt")
		}
	}
	switch {
	case !v.Exists():
		return nil, invalid("prompt is required, or messages")
	case v.Kind() != jsonx.String:
		return nil, invalid("prompt must be a string; tokens are not taken")
	case len(v.Raw) == len(`""`):
		return nil, invalid("prompt must not be empty")
	}
	return v.Raw, nil
}

func invalid(problem string) error {
	f := fault.New(fault.InvalidRequest, problem, nil)
	f.Param = "prompt"
	return f
}

// Error is the body of a JSON error, which is the same in all of OpenAI's formats.
func (Dialect) Error(f *fault.Fault, requestID string) []byte {
	return openai.Dialect{}.Error(f, requestID)
}

// NewEncoder writes one answer for a client of the legacy format.
func (Dialect) NewEncoder(o wire.Options) wire.Encoder {
	e := envelope{opts: o, id: "cmpl-" + strings.TrimPrefix(o.RequestID, "req_"), model: o.Model}
	if o.Stream {
		return &streamEncoder{envelope: e}
	}
	return &bodyEncoder{envelope: e}
}

// Shape shapes a request, which became one of Chat Completions when it was read.
func (Dialect) Shape(req *chat.Request, s *wire.Shape) (*chat.Request, error) {
	return openai.Dialect{}.Shape(req, s)
}
