package policy

import (
	"strconv"
	"strings"
)

// Tag is one decision of the operator's rules about a request, for its record: the rule, its decision, and the reason. It has no content: no text, no
// arguments.
type Tag struct {
	By       string   `json:"by"`             // ByFirewall, ByGuardrail or ByRetrieval
	Rule     string   `json:"rule,omitempty"` // the rule's id, or the hook's name; "" where no rule objected
	Stage    TagStage `json:"stage"`
	Tool     string   `json:"tool,omitempty"` // by its name in the rules or at its provider; "other" for a client's name, and for one that the request does not offer
	Decision string   `json:"decision"`       // allowed, removed, refused, flagged, replaced, skipped or failed
	Reason   string   `json:"reason,omitempty"`
	Shadow   bool     `json:"shadow,omitempty"` // the decision was only recorded
}

// The sources of decisions.
const (
	ByFirewall  = "firewall"
	ByGuardrail = "guardrail"
	ByRetrieval = "retrieval" // a source of results that was not queried, or did not answer
)

// TagStage is the subject of a decision.
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
	DecisionFlagged  = "flagged" // only recorded
	DecisionReplaced = "replaced"
	DecisionSkipped  = "skipped"
	DecisionFailed   = "failed"
)

// MaxTags limits the decisions in a request's record.
const MaxTags = 64

// word returns the decision's name in a header: tools-removed, shadow-call-refused; for a hook with its name.
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

// Summary counts the decisions of one source: "tools-removed=2, call-allowed=1". "" for none.
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
