package wire

import "bardo.money/gateway/extproc/chat"

// Turn is the consecutive messages of one role, for formats in which the user starts, roles alternate, and tool results come first in the
// turn after their calls.
type Turn struct {
	Assistant bool
	Results   []chat.Part // of a user turn
	Parts     []chat.Part
}

// Turns groups a conversation's messages into turns. supported returns the parts of a message that can be sent; a turn without any is
// dropped. systemOnly is true if there is only a system prompt, which is then sent as the user's turn.
func Turns(c *chat.Conversation, supported func(*chat.Message) []chat.Part) (ts []Turn, systemOnly bool) {
	if ts = group(c.Messages, supported); len(ts) > 0 {
		return ts, false
	}
	return group([]chat.Message{{Role: chat.RoleUser, Parts: c.System}}, supported), true
}

// NoContent returns the fault for a conversation of which nothing can be sent, by the client's name of its messages.
func NoContent(c *chat.Conversation) error {
	field := c.Word("messages")
	return Invalid(field, "%s: there is no content that can be sent to this provider", field)
}

// ContinueTurn is a user turn for formats that require one.
func ContinueTurn() Turn {
	return Turn{Parts: []chat.Part{{Kind: chat.PartText, Text: "Continue."}}}
}

func group(messages []chat.Message, supported func(*chat.Message) []chat.Part) []Turn {
	var ts []Turn
	for i := range messages {
		m := &messages[i]
		assistant := m.Role == chat.RoleAssistant
		parts := supported(m)
		if len(parts) == 0 {
			continue
		}
		if len(ts) == 0 && assistant {
			ts = append(ts, ContinueTurn())
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

// MediaLabel returns the text before the images and files that a tool returned, in formats whose results are text only: it names their
// call.
func MediaLabel(call string) string { return MediaLabelPrefix + call + ":" }

// MediaLabelPrefix is the prefix of a MediaLabel.
const MediaLabelPrefix = "Returned by the tool call "
