package openai

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Reasoning that a client gives back comes in one of three members. keyDetails, OpenRouter's, is the only one that has
// signatures; the other two repeat its text.
const (
	keyDetails          = "reasoning_details"
	keyReasoning        = "reasoning"
	keyReasoningContent = "reasoning_content"
)

// readReasoningOf reads the reasoning of an assistant's message.
func readReasoningOf(c *chat.Conversation, m jsonx.Value, at string) ([]chat.Part, error) {
	details := m.Get(keyDetails)
	switch details.Kind() {
	case jsonx.Invalid, jsonx.Null:
	case jsonx.String:
		if t, _ := details.Str(); t != "" {
			return unsigned(c, keyDetails, t), nil
		}
	case jsonx.Array:
		if parts := readDetails(c, details); len(parts) > 0 {
			rename(c, "thinking", keyDetails)
			return parts, nil
		}
	case jsonx.Bool, jsonx.Number, jsonx.Object:
		return nil, wrongKind(at+"."+keyDetails, "an array", details)
	}
	for _, key := range [...]string{keyReasoningContent, keyReasoning} {
		v := m.Get(key)
		if v.IsNull() {
			continue
		}
		t, ok := v.Str()
		switch {
		case !ok:
			return nil, wrongKind(at+"."+key, "a string", v)
		case t != "":
			return unsigned(c, key, t), nil
		}
	}
	return nil, nil
}

func unsigned(c *chat.Conversation, key, text string) []chat.Part {
	rename(c, "thinking", key)
	return []chat.Part{{Kind: chat.PartThinking, Text: text}}
}

// readDetails reads an array of details. A client that collected them from a stream has pieces of one block beside each
// other, with the same index and the signature last.
func readDetails(c *chat.Conversation, details jsonx.Value) []chat.Part {
	var parts []chat.Part
	var index jsonx.Value // of the last part
	var text []byte       // of the last part, once it has a second piece
	whole := func() {
		if len(text) > 0 {
			parts[len(parts)-1].Text = string(text)
		}
		text = text[:0]
	}
	for _, d := range details.Each {
		p, ok := readThought(d)
		at := d.Get("index")
		n := len(parts)
		switch {
		case !ok:
			wire.Unmap(c, keyDetails)
		case p.Text == "" && p.Signature == "" && p.Data == "":
		case n > 0 && continues(&parts[n-1], &p, string(index.Raw), string(at.Raw)):
			if len(text) == 0 {
				text = append(text, parts[n-1].Text...)
			}
			text = append(text, p.Text...)
			parts[n-1].Signature = p.Signature
		default:
			whole()
			parts = append(parts, p)
			index = at
		}
	}
	whole()
	return parts
}

// continues reports whether p is a further piece of the block before it, which no signature has closed. Without an index
// only a signature alone is surely one.
func continues(before, p *chat.Part, index, at string) bool {
	if before.Kind != chat.PartThinking || p.Kind != chat.PartThinking || before.Signature != "" || index != at {
		return false
	}
	return at != "" || p.Text == ""
}

// readThought reads one detail; ok is false when nobody but its maker can read it. Signatures and opaque blocks have a
// place in the canonical form only if Anthropic's models made them.
func readThought(d jsonx.Value) (p chat.Part, ok bool) {
	format := d.Get("format")
	claudes := format.IsNull() || format.Equal(chat.ClaudeThinking) || format.Equal("unknown")
	kind, _ := d.Get("type").Str()
	switch kind {
	case "reasoning.text":
		p.Kind = chat.PartThinking
		p.Text, _ = d.Get("text").Str()
		if claudes {
			p.Signature, _ = d.Get("signature").Str()
		}
		return p, true
	case "reasoning.summary":
		p.Kind = chat.PartThinking
		p.Text, _ = d.Get("summary").Str()
		return p, true
	case "reasoning.encrypted":
		p.Kind = chat.PartRedacted
		p.Data, _ = d.Get("data").Str()
		return p, claudes
	}
	return p, false
}
