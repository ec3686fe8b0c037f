package gemini

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Members of an answer that other dialects do not have, by their names in chat.Extra: of the answer, and of a candidate. Parts of this
// dialect only are named by their member.
const (
	promptFeedback = "promptFeedback"
	finishReason   = "finishReason"
	finishMessage  = "finishMessage"

	groundingMetadata = "groundingMetadata" // results of a web search
	citationMetadata  = "citationMetadata"  // sources of text that the answer repeats
)

// Names of what no encoder can write.
const (
	unknownMember = "unknown_member"   // a member that this package does not know
	unknownPart   = "unknown_part"     // a part whose member is not a name
	oversized     = "oversized_event"  // an event of the stream above the maximum size
	unreadable    = "unreadable_event" // an event of the stream that is not JSON
)

// answerMembers and candidateMembers are the members of an answer and of a candidate that chat.Extra carries. labels are not named as
// degraded.
var (
	labels           = []string{"createTime", "modelStatus", "safetyRatings", "avgLogprobs", "tokenCount", finishMessage}
	answerMembers    = []string{promptFeedback, "createTime", "modelStatus"}
	candidateMembers = []string{
		finishReason, finishMessage, "safetyRatings", "avgLogprobs", "tokenCount", citationMetadata, groundingMetadata, "groundingAttributions",
		"logprobsResult", "urlContextMetadata",
	}
)

// answerExtras emits the members next to the candidates of the first chunk.
func (d *Decoder) answerExtras(v jsonx.Value) {
	for key, m := range v.Members {
		switch name := string(key); {
		case name == "responseId", name == "modelVersion", name == "candidates", name == promptFeedback, name == "usageMetadata", m.IsNull():
		case slices.Contains(answerMembers, name):
			d.Emit(chat.Event{Kind: chat.Extra, ID: name, Text: m.Raw, Redundant: slices.Contains(labels, name)})
		default:
			d.unknownMember()
		}
	}
}

// candidateExtras emits the members of a candidate that only this dialect has.
func (d *Decoder) candidateExtras(c *choice, n int, v jsonx.Value) {
	for key, m := range v.Members {
		switch name := string(key); {
		case name == "index", name == "content", name == finishReason, wire.IsEmpty(m):
		case !d.sameDialect && (name == groundingMetadata || name == citationMetadata):
			d.emitCitations(c, n, name, m)
		case slices.Contains(candidateMembers, name):
			d.Emit(chat.Event{Kind: chat.Extra, ID: name, Choice: n, Text: m.Raw, Redundant: slices.Contains(labels, name)})
		default:
			d.unknownMember()
		}
	}
}

// foreignPart emits a part of this dialect only, unchanged.
func (d *Decoder) foreignPart(c *choice, n int, v jsonx.Value, p *piece) {
	name := p.other
	switch {
	case !p.data.IsNull():
		name = "inlineData"
	case !p.file.IsNull():
		name = "fileData"
	case !p.result.IsNull():
		name = "functionResponse"
	case name == "":
		d.sign(c, n, p.signature, false) // the part has no other content
		return
	case !isName(name):
		name = unknownPart
	}
	d.CloseBlock(&c.open, n)
	c.open.Any = true
	d.Emit(chat.Event{Kind: chat.Extra, ID: name, Index: d.Blocks, Choice: n, Text: v.Raw, Tool: ownTool(name, v.Get(name))})
	d.Blocks++
}

// ownTool returns the provider's tool that a part calls, or the id of the call whose result the part is.
func ownTool(name string, v jsonx.Value) chat.ToolCall {
	id, _ := v.Get("id").Str()
	if id == "" {
		id = codeExecution // only one is open
	}
	switch camel([]byte(name)) {
	case "executableCode":
		return chat.ToolCall{ID: id, Name: codeExecution}
	case "toolCall":
		kind, _ := v.Get("toolType").Str()
		return chat.ToolCall{ID: id, Name: cmp.Or(strings.ToLower(kind), "tool")}
	case "codeExecutionResult", "toolResponse":
		return chat.ToolCall{ID: id}
	}
	return chat.ToolCall{}
}

const codeExecution = "code_execution"

func (d *Decoder) unknownMember() {
	if !d.unknown {
		d.unknown = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: unknownMember})
	}
}

// isName reports whether a member's key may be used as a name, which is shown to clients.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
