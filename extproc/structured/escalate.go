package structured

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Escalation is why an answer asks for a stronger model.
type Escalation string

// The reasons.
const (
	Stays          Escalation = ""           // it does not
	SaysSo         Escalation = "escalate"   // its own word
	LacksCertainty Escalation = "confidence" // it is less sure of itself than it has to be
)

// Escalates says whether an answer of a form, by the form's name, asks for a stronger model: by its own word, or by a confidence below
// floor, from 0 to 1. Only heartbeats' decisions do.
func Escalates(form string, answer []byte, floor float64) Escalation {
	if form != "HeartbeatDecision" {
		return Stays
	}
	v, err := jsonx.Parse(answer)
	if err != nil {
		return Stays
	}
	says, _ := v.Get("escalate").Bool()
	action, _ := v.Get("action").Str()
	confidence, ok := v.Get("confidence").Float()
	switch {
	case says || strings.EqualFold(action, "escalate"):
		return SaysSo
	case ok && confidence < floor:
		return LacksCertainty
	}
	return Stays
}
