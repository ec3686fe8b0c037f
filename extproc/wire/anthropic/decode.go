package anthropic

import (
	"math"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// highBudget is the thinking budget in tokens from which a request counts as one of high effort.
const highBudget = 16384

// Decode reads a request of a Messages client. It looks at the members the gateway acts on; the conversation is parsed
// when something asks for it. The gateway's own hints are marked for removal.
func (Dialect) Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := Names.Scan(body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	r := &chat.Request{
		Dialect: chat.Anthropic, Op: op, Choices: 1, Query: query, Version: h.Get("anthropic-version"), Betas: betas(h),
		InputTokens: wire.InputTokens(doc.Stats), MostInput: wire.MostInputTokens(&doc), Doc: doc, Read: readConversation,
	}
	for i := range doc.Members {
		m := &doc.Members[i]
		if err := readMember(r, m.Key, jsonx.Value{Raw: body[m.Start:m.End], At: m.Start}); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Model == "":
		return nil, invalid("model", "is required")
	case doc.Find("messages") < 0:
		return nil, invalid("messages", "is required")
	case r.MaxTokens == 0 && op == chat.Generate:
		return nil, invalid("max_tokens", "is required")
	}
	wire.RemoveHints(r)
	return r, nil
}

// readMember reads one top-level member of a request. Null counts as absent where the member may be left out.
func readMember(r *chat.Request, key string, v jsonx.Value) error {
	switch key {
	case "model":
		return readModel(r, v)
	case "messages":
		return checkMessages(v)
	}
	if v.IsNull() {
		return nil
	}
	switch key {
	case "stream":
		on, ok := v.Bool()
		if !ok {
			return wire.WrongKind(key, "a boolean", v)
		}
		r.Stream = on && r.Op == chat.Generate
	case "max_tokens":
		n, ok := v.Int()
		if !ok || n < 1 || n > math.MaxInt32 {
			return invalid(key, "must be a positive integer")
		}
		r.MaxTokens = int(n)
	case "thinking":
		return readThinking(r, v)
	case "output_config":
		return readEffort(r, v)
	case "thread":
		return refuseThread(r.Op)
	}
	return nil
}

// refuseThread refuses a conversation that the provider would hold, of which later requests bring the new messages alone: such
// a request can neither be priced nor served by another provider, and one that does not know the field would answer it out of
// context. Clients that use threads know this code, and send the whole conversation from then on.
func refuseThread(op chat.Op) error {
	if op != chat.Generate {
		return nil
	}
	f := fault.Newf(fault.InvalidRequest, "thread: message threads are not supported here: send the whole conversation")
	f.Param, f.Code = "thread", "thread_unsupported_request"
	return f
}

func readModel(r *chat.Request, v jsonx.Value) (err error) {
	r.Model, err = wire.ModelName(v)
	if err == nil && r.Model == "" {
		return invalid("model", "must not be empty")
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
	return invalid("messages", "must not be empty")
}

func readThinking(r *chat.Request, v jsonx.Value) error {
	kind, ok := v.Get("type").Str()
	if !ok {
		return wire.WrongKind("thinking.type", "a string", v.Get("type"))
	}
	r.Thinking = r.Thinking || kind == "enabled" || kind == "adaptive"
	budget, err := wire.ReadBudget("thinking.budget_tokens", v.Get("budget_tokens"))
	r.HighEffort = r.HighEffort || budget >= highBudget
	return err
}

func readEffort(r *chat.Request, v jsonx.Value) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind("output_config", "an object", v)
	}
	effort := v.Get("effort")
	if effort.IsNull() {
		return nil
	}
	name, ok := effort.Str()
	if !ok {
		return wire.WrongKind("output_config.effort", "a string", effort)
	}
	r.Thinking = true
	r.HighEffort = r.HighEffort || name == "high" || name == "xhigh" || name == "max"
	return nil
}

// betas are the beta features that the client asked for, one by one.
func betas(h header.List) []string {
	var names []string
	for _, f := range h {
		if f.Name != "anthropic-beta" {
			continue
		}
		for name := range strings.SplitSeq(f.Value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
