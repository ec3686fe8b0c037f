package review

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
)

// Transcript is the part of an answer that validation reads.
type Transcript struct {
	Plan  *structured.Plan
	Texts []choiceText // by choice
}

// choiceText is one choice of an answer.
type choiceText struct {
	text      []byte
	callsTool bool // a client's own tool
	refused   bool
	stop      chat.StopReason
	unchecked bool // the choice is not validated
}

// skipsCheck reports whether the choice is not validated: the model calls a client's tool, pauses, or refuses. ours: the schema is the gateway's, not
// the client's.
func (s *choiceText) skipsCheck(ours bool) bool {
	return s.callsTool || s.stop == chat.StopPause || s.refused && !ours
}

// maxChoices bounds the memory that an answer's choice numbers can take.
const maxChoices = 128

// Add adds an event to its choice.
func (f *Transcript) Add(ev *chat.Event) {
	switch ev.Kind {
	case chat.Text, chat.Refusal, chat.ToolStart, chat.Stop:
	default:
		return
	}
	if ev.Choice < 0 || ev.Choice >= maxChoices {
		return
	}
	for len(f.Texts) <= ev.Choice {
		f.Texts = append(f.Texts, choiceText{})
	}
	s := &f.Texts[ev.Choice]
	switch ev.Kind { //nolint:exhaustive // as above
	case chat.Text:
		s.text = append(s.text, ev.Text...)
	case chat.Refusal:
		s.refused = true
	case chat.ToolStart:
		s.callsTool = true
	case chat.Stop:
		s.stop = ev.Reason
		s.refused = s.refused || ev.Reason == chat.StopRefusal
	}
}
