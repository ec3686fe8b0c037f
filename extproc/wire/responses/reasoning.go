package responses

import (
	"encoding/base64"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// The reasoning item of a model that signs its thinking has the whole block in its encrypted_content, text included: clients send that back
// unchanged, but may change the summary. It is encoded, not secret: the provider's signature protects it. Content without this prefix is the
// provider's own.
const sealPrefix = "bardo-thinking-1."

// maxSealed is the maximum length in bytes of encrypted_content that the gateway made.
const maxSealed = 4 << 20

// seal encodes a block of thinking as encrypted_content.
func seal(p *chat.Part) []byte {
	var b []byte
	if p.Kind == chat.PartRedacted {
		b = append(jsonx.AppendString([]byte(`{"data":`), p.Data), '}')
	} else {
		b = jsonx.AppendString([]byte(`{"thinking":`), p.Text)
		b = append(jsonx.AppendString(append(b, `,"signature":`...), p.Signature), '}')
	}
	return base64.RawURLEncoding.AppendEncode([]byte(sealPrefix), b)
}

// unseal decodes encrypted_content; ours is false for another provider's. The error is a fault for invalid content.
func unseal(sealed, at string) (p chat.Part, ours bool, err error) {
	text, ours := strings.CutPrefix(sealed, sealPrefix)
	switch {
	case !ours:
		return p, false, nil
	case len(sealed) > maxSealed:
		return p, true, wire.Invalid(at, "%s is longer than %d bytes", at, maxSealed)
	}
	broken := wire.Invalid(at, "%s is not what this gateway gave out: send it back as it came", at)
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return p, true, broken
	}
	v, err := jsonx.Parse(b)
	if err != nil {
		return p, true, broken
	}
	p.Kind = chat.PartThinking
	p.Text, _ = v.Get("thinking").Str()
	p.Signature, _ = v.Get("signature").Str()
	if data, ok := v.Get("data").Str(); ok {
		p = chat.Part{Kind: chat.PartRedacted, Data: data}
	}
	if p.Signature == "" && p.Data == "" {
		return p, true, broken
	}
	return p, true, nil
}

// reasoning reads a reasoning item. Without the gateway's own encrypted_content it is unsigned thinking.
func (rd *reader) reasoning(v jsonx.Value, at string) error {
	wire.UnmapUnknown(rd.c, v, "type", "id", "summary", "content", "encrypted_content", "status")
	sealed, err := wire.ReadOptional(at+".encrypted_content", v.Get("encrypted_content"))
	if err != nil {
		return err
	}
	if sealed != "" {
		p, ours, err := unseal(sealed, at+".encrypted_content")
		if err != nil {
			return err
		}
		if ours {
			rd.add(chat.RoleAssistant, at, p)
			return nil
		}
		wire.Unmap(rd.c, "encrypted_content")
	}
	for _, key := range [...]string{"content", "summary"} {
		parts, err := readContent(rd.c, v.Get(key), at+"."+key)
		if err != nil {
			return err
		}
		if t := joined(parts); t != "" {
			rd.add(chat.RoleAssistant, at, chat.Part{Kind: chat.PartThinking, Text: t})
			break
		}
	}
	return nil
}

func joined(parts []chat.Part) string {
	texts := make([]string, 0, len(parts))
	for i := range parts {
		if parts[i].Text != "" {
			texts = append(texts, parts[i].Text)
		}
	}
	return strings.Join(texts, "\n\n")
}
