package chat

import "strings"

// GeminiThinking is the ID of thinking that comes signed as Gemini's models do it, by the name of the format in OpenRouter's
// reasoning_details.
const GeminiThinking = "google-gemini-v1"

// ResponsesThinking is the ID of thinking of which OpenAI's models give the whole encrypted, in Responses, by the same name of the format.
const ResponsesThinking = "openai-responses-v1"

// Signatures, and what redacted blocks hold, mean something to the maker of the model alone. Those of Anthropic's models are kept as
// they are; all others have their format's name before them, so that whoever gets them back knows whose they are.

// Signed is a signature as it is kept: with the name of its format.
func Signed(format, signature string) string {
	if format == ClaudeThinking {
		return signature
	}
	return format + "#" + signature
}

// Signer tells the format of a signature that is kept, and its bare text.
func Signer(kept string) (format, signature string) {
	format, signature, ok := strings.Cut(kept, "#")
	if !ok || !isFormat(format) {
		return ClaudeThinking, kept
	}
	return format, signature
}

// isFormat reports whether a text could be the name of a format: letters, digits and hyphens, and a version.
func isFormat(s string) bool {
	const most = 64
	if len(s) > most || !strings.Contains(s, "-v") {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// SignedBy is the format of a thinking part's signature, or of what a redacted part holds; "" for what nobody signed.
func (p *Part) SignedBy() string {
	kept := p.Signature
	if p.Kind == PartRedacted {
		kept = p.Data
	}
	if kept == "" {
		return ""
	}
	format, _ := Signer(kept)
	return format
}
