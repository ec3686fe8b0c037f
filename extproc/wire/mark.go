package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// MaxMarks is how many prompt cache marks a request may have (K-24).
const MaxMarks = 4

// Ephemeral is the mark that the gateway sets.
const Ephemeral = `{"type":"ephemeral"}`

// MarkStable returns a conversation's system prompt and tools with a cache mark at the end of each: what is before them does not change
// between requests. The client's own marks count first: no mark is added beyond the maximum, nor where the prefix is shorter than minTokens,
// the minimum that the model's provider caches (D-35). The conversation is not changed.
func MarkStable(c *chat.Conversation, minTokens int) (system []chat.Part, tools []chat.Tool) {
	system, tools = c.System, c.Tools
	left := MaxMarks - countMarks(c)
	offered := toolBytes(tools)
	if i := lastText(system); i >= 0 && left > 0 && system[i].CacheControl == nil && mayReach(offered+textBytes(system[:i+1]), minTokens) {
		system = slices.Clone(system)
		system[i].CacheControl = jsonx.Raw(Ephemeral)
		left--
	}
	if n := len(tools) - 1; n >= 0 && left > 0 && tools[n].CacheControl == nil && tools[n].Raw == nil && mayReach(offered, minTokens) {
		tools = slices.Clone(tools)
		tools[n].CacheControl = jsonx.Raw(Ephemeral)
	}
	return system, tools
}

// mayReach reports whether a prefix of so many bytes may have as many tokens. In doubt it may: a superfluous mark is ignored, a missing one
// costs what the cache saves.
func mayReach(bytes, tokens int) bool { return 2*bytes >= twoTokensOfText*tokens }

func textBytes(parts []chat.Part) (n int) {
	for i := range parts {
		n += len(parts[i].Text)
	}
	return n
}

// toolBytes is the size of the tools as a provider reads them.
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

func countMarks(c *chat.Conversation) int {
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
