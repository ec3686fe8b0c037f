package structured

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Escalation is the reason why a request is repeated with a stronger model.
type Escalation string

// The reasons.
const (
	NoEscalation  Escalation = ""           // the answer is used
	Requested     Escalation = "escalate"   // the answer asks for it
	LowConfidence Escalation = "confidence" // the answer's confidence is below the minimum
)

// Escalates reports whether an answer to a built-in schema requires a stronger model: because it says so, or because its confidence is below
// floor (0 to 1). Only HeartbeatDecision does.
func Escalates(form string, answer []byte, floor float64) Escalation {
	if form != "HeartbeatDecision" {
		return NoEscalation
	}
	v, err := jsonx.Parse(answer)
	if err != nil {
		return NoEscalation
	}
	says, _ := v.Get("escalate").Bool()
	action, _ := v.Get("action").Str()
	confidence, ok := v.Get("confidence").Float()
	switch {
	case says || strings.EqualFold(action, "escalate"):
		return Requested
	case ok && confidence < floor:
		return LowConfidence
	}
	return NoEscalation
}
