package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// MaxMarks is how many marks for a provider's prompt cache a request may hold (K-24).
const MaxMarks = 4

// Ephemeral is the mark that the gateway sets.
const Ephemeral = `{"type":"ephemeral"}`

// MarkStable returns a conversation's system prompt and tools with a mark at the end of each, for what stands before them is stable.
// The client's own marks come first: beyond the most that a request may hold, none is added, and none where what it ends is shorter than
// the least tokens that the model's provider caches (D-35). The conversation stays as it is.
func MarkStable(c *chat.Conversation, least int) (system []chat.Part, tools []chat.Tool) {
	system, tools = c.System, c.Tools
	left := MaxMarks - marks(c)
	offered := toolBytes(tools)
	if i := lastText(system); i >= 0 && left > 0 && system[i].CacheControl == nil && reaches(offered+textBytes(system[:i+1]), least) {
		system = slices.Clone(system)
		system[i].CacheControl = jsonx.Raw(Ephemeral)
		left--
	}
	if n := len(tools) - 1; n >= 0 && left > 0 && tools[n].CacheControl == nil && tools[n].Raw == nil && reaches(offered, least) {
		tools = slices.Clone(tools)
		tools[n].CacheControl = jsonx.Raw(Ephemeral)
	}
	return system, tools
}

// reaches reports whether a prompt's beginning of so many bytes may have as many tokens. In doubt it may: a mark too many is ignored,
// and one too few costs what the cache saves.
func reaches(bytes, tokens int) bool { return 2*bytes >= twoTokensOfText*tokens }

func textBytes(parts []chat.Part) (n int) {
	for i := range parts {
		n += len(parts[i].Text)
	}
	return n
}

// toolBytes is what a provider reads of tools.
func toolBytes(tools []chat.Tool) (n int) {
	for i := range tools {
		t := &tools[i]
		n += len(t.Name) + len(t.Description) + len(t.Schema) + len(t.Raw)
	}
	return n
}

func lastText(parts []chat.Part) int {
	last := -1
	for i := range parts {
		if parts[i].Kind == chat.PartText && parts[i].Text != "" {
			last = i
		}
	}
	return last
}

func marks(c *chat.Conversation) int {
	n := partMarks(c.System)
	for i := range c.Messages {
		n += partMarks(c.Messages[i].Parts)
	}
	for i := range c.Tools {
		if c.Tools[i].CacheControl != nil {
			n++
		}
	}
	return n
}

func partMarks(parts []chat.Part) (n int) {
	for i := range parts {
		if parts[i].CacheControl != nil {
			n++
		}
		n += partMarks(parts[i].Parts)
	}
	return n
}
