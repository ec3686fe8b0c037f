package gemini

import (
	"encoding/base64"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// unsignedCall is the documented signature of a call that was not made by a model of Google's. Newer models refuse a call of the current
// turn without a signature.
const unsignedCall = "skip_thought_signature_validator"

// redacted is the prefix of another vendor's redacted data, which is sent as a signature.
const redacted = "redacted#"

// canonicalSignature converts a signature into the canonical form. It returns the name of its format, and whether it is the data of a
// redacted block. "" is no signature. Both base64 alphabets occur: Google's own clients use another one than its API.
func canonicalSignature(signature string) (text, format string, isRedacted bool) {
	if signature == "" || signature == unsignedCall {
		return "", "", false
	}
	plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(signature), "=")
	if b, err := base64.RawStdEncoding.DecodeString(plain); err == nil {
		if text, format, isRedacted, ok := decodeForeign(string(b)); ok {
			return text, format, isRedacted
		}
	}
	return chat.Signed(chat.GeminiThinking, signature), chat.GeminiThinking, false
}

// decodeForeign decodes a signature of another vendor that encodeSignature encoded.
func decodeForeign(s string) (text, format string, isRedacted, ok bool) {
	format, text = chat.Signer(s)
	if len(format)+len("#")+len(text) != len(s) { // not encoded by encodeSignature
		return "", "", false, false
	}
	text, isRedacted = strings.CutPrefix(text, redacted)
	return chat.Signed(format, text), format, isRedacted, true
}

// encodeSignature encodes a canonical signature for this format.
func encodeSignature(signature string, isRedacted bool) string {
	format, bare := chat.Signer(signature)
	if format == chat.GeminiThinking {
		return bare
	}
	if isRedacted {
		bare = redacted + bare
	}
	return base64.StdEncoding.EncodeToString([]byte(format + "#" + bare))
}
