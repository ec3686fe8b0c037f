package check

import (
	"slices"
	"strings"
)

// What Anthropic's API wants of the thinking in a history, as its documents and its own error texts have it. The turn that the model is
// in goes on over the results of its tools: it begins after the last message in which the user said something.

// turnOf are the places of the assistant's messages in the turn that goes on.
func turnOf(ms []object) (turn []int) {
	for i, m := range ms {
		switch m.Str("role") {
		case "assistant":
			turn = append(turn, i)
		case "user":
			if !slices.ContainsFunc(m.List("content"), func(b object) bool { return b.Str("type") == "tool_result" }) {
				turn = nil
			}
		}
	}
	return turn
}

func isThinking(b object) bool { return strings.HasSuffix(b.Str("type"), "thinking") }

// anthropicTurn checks the thinking of the turn that goes on: with a budget, it begins with some; without thinking, it has none; and
// what this server gave is all there and unchanged, or all gone.
func anthropicTurn(o object, by Signer, given Given) *Refusal {
	ms := o.List("messages")
	turn := turnOf(ms)
	if len(turn) == 0 || by == Unsigned {
		return nil
	}
	kind := o.Object("thinking").Str("type")
	if first := ms[turn[0]].List("content"); kind == "enabled" && (len(first) == 0 || !isThinking(first[0])) {
		found := "text"
		if len(first) > 0 {
			found = first[0].Str("type")
		}
		return refused("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`.", turn[0], found)
	}
	off := kind == "disabled" || kind == "" && !adaptiveOnly.MatchString(o.Str("model"))
	for _, i := range turn {
		blocks := ms[i].List("content")
		j := slices.IndexFunc(blocks, isThinking)
		switch {
		case j < 0:
		case off:
			return refused("messages.%d.content.%d: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`. To use thinking blocks, enable `thinking` in your request.", i, j)
		case !isAsGiven(blocks, given):
			return refused("messages.%d.content.%d: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.", i, j)
		}
	}
	return nil
}

// Given is what an answer consisted of (its Outline), by the id of its first call. ok is false for an answer that is not the provider's own.
type Given func(call string) (outline string, ok bool)

// isAsGiven reports whether a message has the blocks of the answer that its first call is of, in their order. What other servers said
// is not known.
func isAsGiven(blocks []object, given Given) bool {
	at := slices.IndexFunc(blocks, func(b object) bool { return b.Str("type") == "tool_use" })
	if at < 0 {
		return true
	}
	was, known := given(blocks[at].Str("id"))
	return !known || was == Outline(blocks)
}

// Outline says of what a message consists, in its order. Texts that follow each other are one.
func Outline(blocks []object) string {
	var parts []string
	for _, b := range blocks {
		part := b.Str("type")
		switch part {
		case "thinking":
			part += " " + b.Str("signature")
		case "redacted_thinking":
			part += " " + b.Str("data")
		case "tool_use":
			part += " " + b.Str("id")
		case "text":
			if len(parts) > 0 && parts[len(parts)-1] == part {
				continue
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\n")
}
