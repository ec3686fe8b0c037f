package chat

import "strings"

// GeminiThinking is the ID of thinking that is signed as by Gemini's models, by the format's name in OpenRouter's reasoning_details.
const GeminiThinking = "google-gemini-v1"

// ResponsesThinking is the ID of thinking that OpenAI's models return wholly encrypted, in Responses, by the format's name in OpenRouter's
// reasoning_details.
const ResponsesThinking = "openai-responses-v1"

// Signatures and the content of redacted blocks are only valid for the model's vendor. Those of Anthropic's models are stored unchanged; all others
// are prefixed with their format's name, so that the recipient can identify them.

// Signed returns a signature in its stored form: prefixed with its format's name.
func Signed(format, signature string) string {
	if format == ClaudeThinking {
		return signature
	}
	return format + "#" + signature
}

// Signer splits a stored signature into its format and its text.
func Signer(stored string) (format, signature string) {
	format, signature, ok := strings.Cut(stored, "#")
	if !ok || !isFormat(format) {
		return ClaudeThinking, stored
	}
	return format, signature
}

// isFormat reports whether a text can be the name of a format: letters, digits and hyphens, and a version.
func isFormat(s string) bool {
	const maxLength = 64
	if len(s) > maxLength || !strings.Contains(s, "-v") {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// SignedBy returns the format of a thinking part's signature, or of a redacted part's content; "" if it is unsigned.
func (p *Part) SignedBy() string {
	stored := p.Signature
	if p.Kind == PartRedacted {
		stored = p.Data
	}
	if stored == "" {
		return ""
	}
	format, _ := Signer(stored)
	return format
}
