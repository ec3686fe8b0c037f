package gemini

import (
	"encoding/base64"
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// unsignedCall is what the API documents as the signature of a call that none of its models made. Newer ones refuse a call
// of the present turn without any.
const unsignedCall = "skip_thought_signature_validator"

// redacted stands before the data of another maker's redacted block, where only a signature has a place.
const redacted = "redacted#"

// keptSignature is a signature as the canonical form keeps it: the format's name, and whether it is a redacted block's data. "" is none.
// Both alphabets of base64 come: Google's own clients write the other one than its API.
func keptSignature(signature string) (text, format string, isRedacted bool) {
	if signature == "" || signature == unsignedCall {
		return "", "", false
	}
	plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(signature), "=")
	if b, err := base64.RawStdEncoding.DecodeString(plain); err == nil {
		if text, format, isRedacted, ok := foreign(string(b)); ok {
			return text, format, isRedacted
		}
	}
	return chat.Signed(chat.GeminiThinking, signature), chat.GeminiThinking, false
}

// foreign reads a signature of another maker that was wrapped here.
func foreign(s string) (text, format string, isRedacted, ok bool) {
	format, text = chat.Signer(s)
	if len(format)+len("#")+len(text) != len(s) { // nobody's name is before it
		return "", "", false, false
	}
	text, isRedacted = strings.CutPrefix(text, redacted)
	return chat.Signed(format, text), format, isRedacted, true
}

// written is a kept signature as this format writes it.
func written(keptText string, isRedacted bool) string {
	format, bare := chat.Signer(keptText)
	if format == chat.GeminiThinking {
		return bare
	}
	if isRedacted {
		bare = redacted + bare
	}
	return base64.StdEncoding.EncodeToString([]byte(format + "#" + bare))
}
