package openai

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/jsonx"
)

// Members of an assistant's message in which clients send reasoning back. Only keyDetails, OpenRouter's, has signatures; the other two
// repeat its text.
const (
	keyDetails          = "reasoning_details"
	keyReasoning        = "reasoning"
	keyReasoningContent = "reasoning_content"
)

// partThinking is the type of a content part with reasoning, and the member that holds it.
const partThinking = "thinking"

// readReasoningOf reads the reasoning of an assistant's message.
func readReasoningOf(c *chat.Conversation, m jsonx.Value, at string) ([]placedPart, error) {
	details := m.Get(keyDetails)
	switch details.Kind() {
	case jsonx.Invalid, jsonx.Null:
	case jsonx.String:
		if t, _ := details.Str(); t != "" {
			return unsigned(c, keyDetails, t), nil
		}
	case jsonx.Array:
		if parts := readDetails(c, details); len(parts) > 0 {
			wire.Rename(c, "thinking", keyDetails)
			return parts, nil
		}
	case jsonx.Bool, jsonx.Number, jsonx.Object:
		return nil, wire.WrongKind(at+"."+keyDetails, "an array", details)
	}
	if parts := readBlocks(c, m.Get(keyBlocks)); len(parts) > 0 {
		wire.Rename(c, "thinking", keyBlocks)
		return parts, nil
	}
	for _, key := range [...]string{keyReasoningContent, keyReasoning} {
		v := m.Get(key)
		if v.IsNull() {
			continue
		}
		t, ok := v.Str()
		switch {
		case !ok:
			return nil, wire.WrongKind(at+"."+key, "a string", v)
		case t != "":
			return unsigned(c, key, t), nil
		}
	}
	return nil, nil
}

// readBlocks reads the thinking blocks of an answer of Claude as LiteLLM sends them to its clients, and those send them back.
func readBlocks(c *chat.Conversation, blocks jsonx.Value) (parts []placedPart) {
	for _, b := range blocks.Each {
		p := chat.Part{}
		text := func(key string) (s string) { s, _ = b.Get(key).Str(); return s }
		switch kind := b.Get("type"); {
		case kind.Equal(partThinking):
			p.Kind, p.Text = chat.PartThinking, text(partThinking)
			if s := text("signature"); s != "" {
				p.Signature = chat.Signed(chat.ClaudeThinking, s)
			}
		case kind.Equal("redacted_thinking") && text("data") != "":
			p.Kind, p.Data = chat.PartRedacted, chat.Signed(chat.ClaudeThinking, text("data"))
		default:
			wire.Unmap(c, "thinking_blocks")
			continue
		}
		wire.UnmapUnknown(c, b, "type", partThinking, "signature", "data")
		if p.Text != "" || p.Signature != "" || p.Data != "" {
			parts = append(parts, placedPart{Part: p})
		}
	}
	return parts
}

// thoughtParts converts content parts with reasoning, which models such as Mistral's return, into thinking. If the message also has a
// reasoning member, that repeats them, and they are dropped.
func thoughtParts(c *chat.Conversation, m jsonx.Value, content []chat.Part) []chat.Part {
	hasMember := false
	for _, key := range [...]string{keyDetails, keyBlocks, keyReasoningContent, keyReasoning} {
		hasMember = hasMember || !wire.IsEmpty(m.Get(key))
	}
	var parts []chat.Part
	for _, p := range content {
		if p.Kind != chat.PartOther || p.Name != partThinking {
			parts = append(parts, p)
			continue
		}
		v, err := jsonx.Parse(p.Raw)
		if err != nil { // impossible: the request was parsed before
			continue
		}
		wire.UnmapUnknown(c, v, "type", partThinking, "closed")
		if text := thoughtText(v.Get(partThinking)); text != "" && !hasMember {
			wire.Rename(c, "thinking", partThinking)
			parts = append(parts, chat.Part{Kind: chat.PartThinking, Text: text})
		}
	}
	return parts
}

// thoughtText returns the text of a reasoning part: a string, or an array of text parts.
func thoughtText(v jsonx.Value) string {
	if text, ok := v.Str(); ok {
		return text
	}
	var b strings.Builder
	for _, piece := range v.Each {
		text, _ := piece.Get("text").Str()
		b.WriteString(text)
	}
	return b.String()
}

func unsigned(c *chat.Conversation, key, text string) []placedPart {
	wire.Rename(c, "thinking", key)
	return []placedPart{{Part: chat.Part{Kind: chat.PartThinking, Text: text}}}
}

// readDetails reads an array of details. Clients that collected them from a stream send the pieces of a block next to each other, with the
// same index, and the signature last.
func readDetails(c *chat.Conversation, details jsonx.Value) []placedPart {
	var parts []placedPart
	var index jsonx.Value // of the last part
	var text []byte       // of the last part, once it has a second piece
	whole := func() {
		if len(text) > 0 {
			parts[len(parts)-1].Text = string(text)
		}
		text = text[:0]
	}
	signer := chat.ClaudeThinking // of the last part: only its first piece states the format
	for _, d := range details.Each {
		at := d.Get("index")
		if string(at.Raw) != string(index.Raw) {
			signer = chat.ClaudeThinking
		}
		p, ok := readThought(d, &signer)
		n := len(parts)
		switch {
		case !ok:
			wire.Unmap(c, keyDetails)
		case p.Text == "" && p.Signature == "" && p.Data == "":
		case n > 0 && continues(&parts[n-1].Part, &p, string(index.Raw), string(at.Raw)):
			if len(text) == 0 {
				text = append(text, parts[n-1].Text...)
			}
			text = append(text, p.Text...)
			parts[n-1].Signature = p.Signature
		default:
			whole()
			parts = append(parts, placedPart{p, chatcompletion.ReadSpot(d.Get("id"))})
			index = at
		}
	}
	whole()
	return parts
}

// continues reports whether p is another piece of the unsigned block before it. Without an index, only a detail with nothing but a
// signature is certain to be one.
func continues(before, p *chat.Part, index, at string) bool {
	if before.Kind != chat.PartThinking || p.Kind != chat.PartThinking || before.Signature != "" || index != at {
		return false
	}
	return at != "" || p.Text == ""
}

// readThought reads one detail; ok is false if only its model's provider can read it. The canonical form has signatures and opaque blocks of
// Anthropic, Google and OpenAI only. signer is the format of a detail that does not state one.
func readThought(d jsonx.Value, signer *string) (p chat.Part, ok bool) {
	known := true
	switch format := d.Get("format"); {
	case format.IsNull():
	case format.Equal(chat.GeminiThinking):
		*signer = chat.GeminiThinking
	case format.Equal(chat.ResponsesThinking):
		*signer = chat.ResponsesThinking
	default:
		*signer = chat.ClaudeThinking
		known = format.Equal(chat.ClaudeThinking) || format.Equal("unknown")
	}
	signed := func(key string) string {
		text, _ := d.Get(key).Str()
		if text == "" {
			return ""
		}
		return chat.Signed(*signer, text)
	}
	kind, _ := d.Get("type").Str()
	switch kind {
	case "reasoning.text":
		p.Kind = chat.PartThinking
		p.Text, _ = d.Get("text").Str()
		if known {
			p.Signature = signed("signature")
		}
		return p, true
	case "reasoning.summary":
		p.Kind = chat.PartThinking
		p.Text, _ = d.Get("summary").Str()
		return p, true
	case "reasoning.encrypted":
		p.Kind = chat.PartRedacted
		p.Data = signed("data")
		return p, known
	}
	return p, false
}
