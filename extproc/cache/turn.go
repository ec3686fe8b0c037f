package cache

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// Turn is a request whose last message is a text of the user.
type Turn struct {
	// Partition is the same for a tenant's requests that differ in the text of this message and in nothing else. The text is not part of it.
	Partition Key
	Text      string
}

// TurnOf reads a tenant's request as a turn. ok is false for a request that has more than texts (media, tool calls and their results), that the
// canonical form does not represent completely, or that lets the provider search the web.
func TurnOf(tenant policy.Account, r *chat.Request) (t Turn, ok bool) {
	doc := editedDoc(r)
	c := canonical(r, &doc)
	if c == nil || c.Params.WebSearch != nil && *c.Params.WebSearch || c.Params.Predicted != "" || !onlyTexts(c) {
		return Turn{}, false
	}
	last := len(c.Messages) - 1
	if t.Text, ok = userText(&c.Messages[last]); !ok {
		return Turn{}, false
	}
	rest := *c
	rest.Messages = c.Messages[:last]
	t.Partition = hashed(tenant, func(w *writer) {
		w.sortBudget = maxSortPasses * len(doc.Bytes)
		w.head(r)
		w.byte(keyedTurn)
		w.limits(r)
		w.conversation(&rest)
	})
	return t, true
}

// onlyTexts reports whether a conversation has messages, and all their parts are texts and thoughts.
func onlyTexts(c *chat.Conversation) bool {
	for i := range c.System {
		if c.System[i].Kind != chat.PartText {
			return false
		}
	}
	for i := range c.Messages {
		for j := range c.Messages[i].Parts {
			switch c.Messages[i].Parts[j].Kind {
			case chat.PartText, chat.PartThinking, chat.PartRedacted, chat.PartRefusal:
			default:
				return false
			}
		}
	}
	return len(c.Messages) > 0
}

// userText is the text of a user's message; ok is false for any other message.
func userText(m *chat.Message) (text string, ok bool) {
	if m.Role != chat.RoleUser || len(m.Parts) == 0 {
		return "", false
	}
	if len(m.Parts) == 1 {
		return m.Parts[0].Text, m.Parts[0].Kind == chat.PartText
	}
	var b strings.Builder
	for i := range m.Parts {
		if m.Parts[i].Kind != chat.PartText {
			return "", false
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(m.Parts[i].Text)
	}
	return b.String(), true
}
