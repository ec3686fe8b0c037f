package responses

import (
	"math"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Decode reads a request, of an answer or of a count of its tokens. It looks at the members the gateway acts on; the
// conversation is parsed when something asks for it. What only the keeper of responses can do is put into Needs.
func (Dialect) Decode(op chat.Op, _ header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := Names.Scan(body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	r := &chat.Request{Dialect: chat.Responses, Op: op, Choices: 1, Query: query, Doc: doc, Read: readConversation}
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
	if doc.Get("input").IsNull() && len(r.Needs) == 0 {
		return nil, wire.Invalid("input", "input is required")
	}
	wire.RemoveHints(r)
	return r, nil
}

// readMember reads one top-level member of a request. Null counts as absent.
func readMember(r *chat.Request, key string, v jsonx.Value) error {
	if v.IsNull() {
		return nil
	}
	switch key {
	case "model":
		return readModel(r, v)
	case "input":
		return readInputKind(r, v)
	case "stream":
		on, ok := v.Bool()
		if !ok {
			return wire.WrongKind(key, "a boolean", v)
		}
		r.Stream = on && r.Op == chat.Generate
	case "max_output_tokens":
		n, ok := v.Int()
		if !ok || n < 1 || n > math.MaxInt32 {
			return wire.Invalid(key, "max_output_tokens must be a positive integer")
		}
		r.MaxTokens = int(n)
	case "reasoning":
		return readReasoning(r, v)
	case "previous_response_id", "conversation", "prompt":
		need(r, key)
	case "background":
		if on, _ := v.Bool(); on {
			need(r, key)
		}
	}
	return nil
}

// need notes a member that only the provider which keeps the responses can serve.
func need(r *chat.Request, member string) {
	r.Needs = append(r.Needs, chat.Need{Feature: policy.ResponsesAPI, Member: member})
}

func readModel(r *chat.Request, v jsonx.Value) (err error) {
	r.Model, err = wire.ModelName(v)
	return err
}

// readInputKind looks at the input's form, and for items that are told by their ids alone.
func readInputKind(r *chat.Request, v jsonx.Value) error {
	if k := v.Kind(); k != jsonx.Array {
		if k != jsonx.String {
			return wire.WrongKind("input", "a string or an array", v)
		}
		return nil
	}
	if !r.Doc.MayHold(itemReference) {
		return nil
	}
	for i, item := range v.Each {
		if item.Get("type").Equal(itemReference) {
			need(r, itemAt(i))
			return nil
		}
	}
	return nil
}

const itemReference = "item_reference"

func itemAt(i int) string { return "input[" + strconv.Itoa(i) + "]" }

func readReasoning(r *chat.Request, v jsonx.Value) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind("reasoning", "an object", v)
	}
	e := v.Get("effort")
	if e.IsNull() {
		return nil
	}
	effort, ok := e.Str()
	if !ok {
		return wire.WrongKind("reasoning.effort", "a string", e)
	}
	r.Thinking = r.Thinking || effort != "none"
	r.HighEffort = r.HighEffort || effort == "high" || effort == "xhigh" || effort == "max"
	return nil
}

// KeptElsewhere is the fault of a request for something that only the provider keeps, where none that does is to be asked.
func KeptElsewhere(member string) *fault.Fault {
	f := fault.Newf(fault.RequiresDirectKey,
		"%s needs a provider that keeps responses, which takes an OpenAI key of your own (providers.direct): send the whole input instead", member)
	f.Param = member
	return f
}
