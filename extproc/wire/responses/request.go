package responses

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Decode reads a request for an answer or for a token count. It reads the members that the gateway acts on; the conversation is parsed when
// it is needed. Needs lists what only the provider that stores the responses can serve.
func (Dialect) Decode(op chat.Op, _ header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := Names.Scan(body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	r := &chat.Request{Dialect: chat.Responses, Op: op, Choices: 1, Query: query, Doc: doc, Read: readConversation}
	r.InputTokens, r.MaxInput = wire.InputTokens(doc.Stats), wire.MaxInputTokens(&doc)
	for key, v := range wire.TopMembers(&doc) {
		if err := readMember(r, key, v); err != nil {
			return nil, err
		}
	}
	if r.Model == "" {
		return nil, wire.Invalid("model", "model is required")
	}
	if doc.Get("input").IsNull() && len(r.Needs) == 0 {
		return nil, wire.Invalid("input", "input is required")
	}
	if err := wire.RemoveHints(r); err != nil {
		return nil, err
	}
	return r, nil
}

// readMember reads one top-level member of a request. Null counts as absent.
func readMember(r *chat.Request, key string, v jsonx.Value) (err error) {
	if v.IsNull() {
		return nil
	}
	switch key {
	case "model":
		r.Model, err = wire.ModelName(v)
	case "input":
		return readInputKind(r, v)
	case "stream":
		r.Stream, err = wire.ReadFlag(key, v)
		r.Stream = r.Stream && r.Op == chat.Generate
	case "max_output_tokens":
		r.MaxTokens, err = wire.ReadLimit(key, v)
	case "reasoning":
		return readReasoning(r, v)
	case "previous_response_id", "conversation", "prompt":
		need(r, key)
	case "background":
		if on, _ := v.Bool(); on {
			need(r, key)
		}
	}
	return err
}

// need records a member that only the provider that stores the responses can serve.
func need(r *chat.Request, member string) {
	r.Needs = append(r.Needs, chat.Need{Feature: policy.ResponsesAPI, Member: member})
}

// readInputKind checks the type of the input, and looks for references to stored items.
func readInputKind(r *chat.Request, v jsonx.Value) error {
	if k := v.Kind(); k != jsonx.Array {
		if k != jsonx.String {
			return wire.WrongKind("input", "a string or an array", v)
		}
		return nil
	}
	if !r.Doc.MayHoldValue(&referenceTypes) {
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

var referenceTypes = jsonx.WordsOf(itemReference)

func itemAt(i int) string { return "input[" + strconv.Itoa(i) + "]" }

func readReasoning(r *chat.Request, v jsonx.Value) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind("reasoning", "an object", v)
	}
	e := v.Get("effort")
	if e.IsNull() {
		return nil
	}
	return wire.ReadEffort(r, "reasoning.effort", e)
}

// StoredElsewhere returns the fault for a request that refers to responses which a provider stores, if no such provider can be called.
func StoredElsewhere(member string) *fault.Fault {
	f := fault.Newf(fault.RequiresDirectKey,
		"%s needs a provider that keeps responses, which takes an OpenAI key of your own (providers.direct): send the whole input instead", member)
	f.Param = member
	return f
}
