package policy

import (
	"strconv"
	"strings"
)

// Tag is one decision of the operator's rules about a request, in its record: which rule decided what, and why. It has no content: no text, no arguments.
type Tag struct {
	By       string   `json:"by"`             // ByFirewall, ByGuardrail or ByRetrieval
	Rule     string   `json:"rule,omitempty"` // the rule's id, or the hook's name; "" where no rule objected
	Stage    TagStage `json:"stage"`
	Tool     string   `json:"tool,omitempty"` // as the rules or its provider name it; "other" for another name, which is the client's, and for one that the request does not offer
	Decision string   `json:"decision"`       // allowed, removed, refused, flagged, replaced, skipped or failed
	Reason   string   `json:"reason,omitempty"`
	Shadow   bool     `json:"shadow,omitempty"` // nothing was done about it
}

// Who decides.
const (
	ByFirewall  = "firewall"
	ByGuardrail = "guardrail"
	ByRetrieval = "retrieval" // a source of results that was not asked, or did not answer
)

// TagStage is what a decision is about.
type TagStage string

// The stages.
const (
	StageTools    TagStage = "tools"    // a tool that the request offers
	StageCall     TagStage = "call"     // a call in the answer
	StageRequest  TagStage = "request"  // the request as a whole
	StageResponse TagStage = "response" // the answer as a whole
)

// The decisions.
const (
	DecisionAllowed  = "allowed"
	DecisionRemoved  = "removed"
	DecisionRefused  = "refused"
	DecisionFlagged  = "flagged" // recorded, and nothing else
	DecisionReplaced = "replaced"
	DecisionSkipped  = "skipped"
	DecisionFailed   = "failed"
)

// MaxTags bounds the decisions that a request's record has.
const MaxTags = 64

// word is what a header says of a decision: tools-removed, shadow-call-refused; of a hook its name, too.
func (t *Tag) word() string {
	word := string(t.Stage) + "-" + t.Decision
	if t.Stage == StageRequest || t.Stage == StageResponse {
		word = t.Rule + "-" + word
	}
	if t.Shadow {
		return "shadow-" + word
	}
	return word
}

// Summary counts the decisions by who made them: "tools-removed=2, call-allowed=1". "" for none.
func Summary(tags []Tag, by string) string {
	var words []string
	counts := map[string]int{}
	for i := range tags {
		if tags[i].By != by {
			continue
		}
		w := tags[i].word()
		if counts[w]++; counts[w] == 1 {
			words = append(words, w)
		}
	}
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(w + "=" + strconv.Itoa(counts[w]))
	}
	return b.String()
}
