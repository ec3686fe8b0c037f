package gemini

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// Clients store a streamed model turn chunk by chunk: google-genai creates a content for each chunk, other clients a part. Here consecutive
// texts are merged into one part again, as in the history of a client that did not stream.

// joinModelTurns merges consecutive contents of the model into one message, and its consecutive texts into one part.
func joinModelTurns(ms []chat.Message) []chat.Message {
	out := ms[:0]
	for i := range ms {
		m := ms[i]
		n := len(out)
		if m.Role == chat.RoleAssistant && n > 0 && out[n-1].Role == chat.RoleAssistant {
			out[n-1].Parts = append(out[n-1].Parts, m.Parts...)
			continue
		}
		out = append(out, m)
	}
	for i := range out {
		if out[i].Role == chat.RoleAssistant {
			out[i].Parts = joinTexts(out[i].Parts)
		}
	}
	return out
}

// joinTexts merges consecutive texts, and the pieces of a thought, of which the last one is signed.
func joinTexts(parts []chat.Part) []chat.Part {
	out := parts[:0]
	for i := 0; i < len(parts); {
		end := i + 1
		for end < len(parts) && continues(&parts[end-1], &parts[end]) {
			end++
		}
		p := parts[i]
		if end > i+1 {
			var text strings.Builder
			for j := i; j < end; j++ {
				text.WriteString(parts[j].Text)
			}
			p.Text, p.Signature = text.String(), parts[end-1].Signature
		}
		out = append(out, p)
		i = end
	}
	return out
}

// continues reports whether a part is another piece of the one before it.
func continues(before, p *chat.Part) bool {
	switch {
	case before.Kind != p.Kind:
		return false
	case p.Kind == chat.PartText:
		return true
	}
	return p.Kind == chat.PartThinking && before.Signature == ""
}
