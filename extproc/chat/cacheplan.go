package chat

import (
	"math"
	"strings"
)

// CachePlan describes which parts of a request repeat in later requests, for providers whose prompt caches use marks: their encoders set marks at the
// ends of these parts. Without a plan nothing is marked. Read-only.
type CachePlan struct {
	System int  // length of the repeating start of the system prompt, in bytes of its texts' UTF-8, without separators; WholePrompt: all of it
	Tools  bool // the tool definitions repeat
	End    bool // the conversation repeats up to its last message, if that is not the model's

	Beside bool // the client set marks of its own
}

// WholePrompt is the CachePlan.System of a system prompt that does not change.
const WholePrompt = math.MaxInt

// Boundary returns the end of the repeating part of a system prompt: in the text at index i, after cut of its bytes, or, if cut is 0, at its end. i
// is -1 if nothing repeats. Neither the text before the boundary nor that after it is only white space.
func (p *CachePlan) Boundary(texts []string) (i, cut int) {
	left := p.System
	i = -1
	for k, s := range texts {
		switch {
		case left <= 0:
			return i, 0
		case left < len(s) && strings.TrimSpace(s[:left]) == "":
			return i, 0
		case left < len(s) && strings.TrimSpace(s[left:]) != "":
			return k, left
		case strings.TrimSpace(s) != "":
			i = k
		}
		left -= len(s)
	}
	return i, 0
}

// SetsMarks reports whether the plan, which may be nil, asks for any mark.
func (p *CachePlan) SetsMarks() bool { return p != nil && (p.System > 0 || p.Tools || p.End) }

// Flag is a client's statement whether a block of the system prompt changes between requests.
type Flag struct {
	Turn     int // index of the message, or item; 0 in formats whose system prompt is a list of blocks
	Part     int // index of the block in it; -1: the whole message
	Volatile bool
}
