package review

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
)

// Transcript is what an answer said so far, of what its form is about.
type Transcript struct {
	Plan  *structured.Plan
	Texts []choiceText // by choice
}

// choiceText is one choice of an answer.
type choiceText struct {
	text      []byte
	callsTool bool // a tool of the client's own
	refused   bool
	stop      chat.StopReason
	unchecked bool // it is no answer to be checked
}

// skipsCheck reports whether there is nothing to be checked: the model calls a tool of the client's, pauses, or declines what the client asked
// for.
func (s *choiceText) skipsCheck(ours bool) bool {
	return s.callsTool || s.stop == chat.StopPause || s.refused && !ours
}

// maxChoices bounds what an answer's numbers of choices may make the gateway set up.
const maxChoices = 128

// Add notes what an event adds to the answer's choices.
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
