package anthropic

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// highBudget is the thinking budget in tokens from which a request has high effort.
const highBudget = 16384

// Decode reads a Messages request. It reads the members that the gateway acts on; the conversation is parsed when it is needed. The gateway's
// own hints are marked for removal.
func (Dialect) Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error) {
	doc, err := Names.Scan(body)
	if err != nil {
		return nil, wire.NotJSON(err)
	}
	r := &chat.Request{
		Dialect: chat.Anthropic, Op: op, Choices: 1, Query: query, Version: h.Get("anthropic-version"), Betas: betas(h),
		InputTokens: wire.InputTokens(doc.Stats), MaxInput: wire.MaxInputTokens(&doc), Doc: doc, Read: readConversation,
	}
	for key, v := range wire.TopMembers(&doc) {
		if err := readMember(r, key, v); err != nil {
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
	if err := wire.RemoveHints(r); err != nil {
		return nil, err
	}
	return r, nil
}

// readMember reads one top-level member of a request. Null counts as absent for optional members.
func readMember(r *chat.Request, key string, v jsonx.Value) (err error) {
	switch key {
	case "model":
		r.Model, err = wire.ReadModel(v)
		return err
	case "messages":
		return wire.CheckMessages(v)
	}
	if v.IsNull() {
		return nil
	}
	switch key {
	case "stream":
		r.Stream, err = wire.ReadFlag(key, v)
		r.Stream = r.Stream && r.Op == chat.Generate
	case "max_tokens":
		r.MaxTokens, err = wire.ReadLimit(key, v)
	case "thinking":
		return readThinking(r, v)
	case "output_config":
		return readEffort(r, v)
	case "thread":
		return refuseThread(r.Op)
	}
	return err
}

// refuseThread refuses a conversation that the provider would store, of which later requests send only the new messages: such a request can
// neither be priced nor served by another provider, and a provider that ignores the member would answer out of context. Clients that use
// threads recognise this code and send the whole conversation afterwards.
func refuseThread(op chat.Op) error {
	if op != chat.Generate {
		return nil
	}
	f := fault.Newf(fault.InvalidRequest, "thread: message threads are not supported here: send the whole conversation")
	f.Param, f.Code = "thread", "thread_unsupported_request"
	return f
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
	r.Thinking = true
	return wire.ReadEffort(r, "output_config.effort", effort)
}

// betas returns the beta flags of a request.
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
