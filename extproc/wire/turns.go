package wire

import "bardo.money/gateway/extproc/chat"

// Turn is what one side says at a stretch, for formats that want the user to begin, the sides to alternate, and the results of tools
// first in the turn after their calls.
type Turn struct {
	Assistant bool
	Results   []chat.Part // of the user's side
	Parts     []chat.Part
}

// Turns groups a conversation's messages into turns. sayable returns what of a message can be said; a turn with nothing left is left
// out. A system prompt with no turn beside it is still a question: alone says that it stands as the user's turn.
func Turns(c *chat.Conversation, sayable func(*chat.Message) []chat.Part) (ts []Turn, alone bool) {
	if ts = group(c.Messages, sayable); len(ts) > 0 {
		return ts, false
	}
	return group([]chat.Message{{Role: chat.RoleUser, Parts: c.System}}, sayable), true
}

// Proceed is a turn of the user's where a format wants one and there is none.
func Proceed() Turn {
	return Turn{Parts: []chat.Part{{Kind: chat.PartText, Text: "Continue."}}}
}

func group(messages []chat.Message, sayable func(*chat.Message) []chat.Part) []Turn {
	var ts []Turn
	for i := range messages {
		m := &messages[i]
		assistant := m.Role == chat.RoleAssistant
		parts := sayable(m)
		if len(parts) == 0 {
			continue
		}
		if len(ts) == 0 && assistant {
			ts = append(ts, Proceed())
		}
		if len(ts) == 0 || ts[len(ts)-1].Assistant != assistant {
			ts = append(ts, Turn{Assistant: assistant})
		}
		ts[len(ts)-1].add(parts)
	}
	return ts
}

func (t *Turn) add(parts []chat.Part) {
	for i := range parts {
		if parts[i].Kind == chat.PartToolResult {
			t.Results = append(t.Results, parts[i])
		} else {
			t.Parts = append(t.Parts, parts[i])
		}
	}
}

// Shown is what stands before the images and files that a tool returned, in formats whose results hold text alone: it names their call.
func Shown(call string) string { return ShownWords + call + ":" }

// ShownWords is how Shown begins.
const ShownWords = "Returned by the tool call "
