package wire

import (
	"encoding/base64"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// SealPrefix is the prefix of encrypted_content that the gateway wrote.
const SealPrefix = "bardo-thinking-1."

// maxSealed is the maximum length in bytes of encrypted_content that the gateway wrote.
const maxSealed = 4 << 20

// Seal encodes a block of signed thinking as the encrypted_content of a reasoning item of the Responses API. It contains the whole block,
// text included, because clients send it back unchanged but may change the summary. It is encoded, not encrypted: the provider's signature
// protects it. Content without the prefix is the provider's own.
func Seal(p *chat.Part) []byte {
	var b []byte
	if p.Kind == chat.PartRedacted {
		b = append(jsonx.AppendString([]byte(`{"data":`), p.Data), '}')
	} else {
		b = jsonx.AppendString([]byte(`{"thinking":`), p.Text)
		b = append(jsonx.AppendString(append(b, `,"signature":`...), p.Signature), '}')
	}
	return base64.RawURLEncoding.AppendEncode([]byte(SealPrefix), b)
}

// Unseal decodes encrypted_content; ours is false if it was not written by the gateway. The error is a fault for invalid content.
func Unseal(sealed, at string) (p chat.Part, ours bool, err error) {
	text, ours := strings.CutPrefix(sealed, SealPrefix)
	switch {
	case !ours:
		return p, false, nil
	case len(sealed) > maxSealed:
		return p, true, Invalid(at, "%s is longer than %d bytes", at, maxSealed)
	}
	broken := Invalid(at, "%s is not what this gateway gave out: send it back as it came", at)
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
