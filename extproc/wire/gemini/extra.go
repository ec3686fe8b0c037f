package gemini

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Members of an answer that other dialects do not have, as chat.Extra names them: of the answer, and of a candidate. Parts that
// only this dialect knows are named by their member.
const (
	promptFeedback = "promptFeedback"
	finishReason   = "finishReason"
	finishMessage  = "finishMessage"

	groundingMetadata = "groundingMetadata" // what a search of the web found
	citationMetadata  = "citationMetadata"  // what the answer repeats
)

// Names of what no encoder can write.
const (
	unknownMember = "unknown_member"   // a member that this package does not know
	unknownPart   = "unknown_part"     // a part whose member is no word
	oversized     = "oversized_event"  // an event of the stream that was too long to keep
	unreadable    = "unreadable_event" // an event of the stream that is not JSON
)

// ofAnswer are the members of an answer, and ofCandidate those of a candidate. The first list says what another dialect loses nothing
// by: labels, and what nobody asked for.
var (
	labels      = []string{"createTime", "modelStatus", "safetyRatings", "avgLogprobs", "tokenCount", finishMessage}
	ofAnswer    = []string{promptFeedback, "createTime", "modelStatus"}
	ofCandidate = []string{
		finishReason, finishMessage, "safetyRatings", "avgLogprobs", "tokenCount", citationMetadata, groundingMetadata, "groundingAttributions",
		"logprobsResult", "urlContextMetadata",
	}
)

// answerExtras tells what stands beside the candidates, of the first chunk.
func (d *Decoder) answerExtras(v jsonx.Value) {
	for key, m := range v.Members {
		switch name := string(key); {
		case name == "responseId", name == "modelVersion", name == "candidates", name == promptFeedback, name == "usageMetadata", m.IsNull():
		case slices.Contains(ofAnswer, name):
			d.Emit(chat.Event{Kind: chat.Extra, ID: name, Text: m.Raw, Said: slices.Contains(labels, name)})
		default:
			d.unknownMember()
		}
	}
}

// candidateExtras tells what only this dialect has on a candidate.
func (d *Decoder) candidateExtras(c *choice, n int, v jsonx.Value) {
	for key, m := range v.Members {
		switch name := string(key); {
		case name == "index", name == "content", name == finishReason, wire.IsEmpty(m):
		case !d.same && (name == groundingMetadata || name == citationMetadata):
			d.cites(c, n, name, m)
		case slices.Contains(ofCandidate, name):
			d.Emit(chat.Event{Kind: chat.Extra, ID: name, Choice: n, Text: m.Raw, Said: slices.Contains(labels, name)})
		default:
			d.unknownMember()
		}
	}
}

// foreignPart tells a part that only this dialect knows, whole.
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
		d.sign(c, n, p.signature, false) // a part that holds nothing else
		return
	case !isWord(name):
		name = unknownPart
	}
	d.closeBlock(c, n)
	c.spoke = true
	d.Emit(chat.Event{Kind: chat.Extra, ID: name, Index: d.blocks, Choice: n, Text: v.Raw})
	d.blocks++
}

func (d *Decoder) unknownMember() {
	if !d.unknown {
		d.unknown = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: unknownMember})
	}
}

// isWord reports whether a member's key is fit to be a name: the provider's own words go no further.
func isWord(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
