package review

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/policy"
)

// HeaderSchema says how the form of an answer was asked for, and whether the answer has it.
const HeaderSchema = "x-bardo-schema"

// DegradedDefault is what an answer lacks that is its form's default.
const DegradedDefault = "schema_default"

// SchemaResult is what X-Bardo-Schema says.
type SchemaResult struct {
	mode              structured.Mode
	checked           bool
	valid             bool
	Defaulted         bool
	retries           int
	accepted, choices int // choices, where there are several
}

// String is the header's value: with nothing behind the mode, nothing was checked.
func (f *SchemaResult) String() string {
	if !f.checked {
		return f.mode.String()
	}
	s := f.mode.String() + "; valid=" + strconv.FormatBool(f.valid) + "; retries=" + strconv.Itoa(f.retries)
	if f.choices > 1 && !f.valid {
		s += "; choices=" + strconv.Itoa(f.accepted) + "/" + strconv.Itoa(f.choices)
	}
	if f.Defaulted {
		s += "; default=true"
	}
	return s
}

// SchemaStatus is what there is to say of the answer's form at this moment, if to gives it; "" for an answer without one.
func (r *Review) SchemaStatus(to *policy.Resolution) string {
	switch {
	case r.Schema == nil:
		return ""
	case r.Result != nil:
		return r.Result.String()
	}
	if mode := r.modeAt(to); mode != structured.None {
		return mode.String()
	}
	return ""
}

// HoldsBack reports whether an answer of a plan is looked at as a whole before its client sees any of it.
func (r *Review) HoldsBack(plan *structured.Plan) bool {
	return plan != nil && (!r.Request.Stream || !plan.Streamable || r.MayReplaceAnswer())
}

// SetResult notes what the check of an answer came to.
func (r *Review) SetResult(plan *structured.Plan, j *Validation) (unfit bool) {
	r.Result = &SchemaResult{
		mode: plan.Mode, checked: !j.Open && r.Config.Structured.Validate, valid: j.Valid, retries: r.Retried,
		accepted: j.accepted, choices: len(j.Choices),
	}
	return r.Result.checked && !j.Valid
}

// SchemaError is the cause of a failed attempt whose answer does not have its form.
type SchemaError struct{}

func (SchemaError) Error() string { return "the answer does not have the form that was asked for" }

// TextMessage is a message with one part of text.
func TextMessage(r chat.Role, text string) chat.Message {
	return chat.Message{Role: r, Parts: []chat.Part{{Kind: chat.PartText, Text: text}}}
}

// The events of forms.
const (
	eventSchema         = "inference:schema_validated"
	eventSchemaFallback = "inference:schema_fallback"
)

// Why an answer's form was not simply enforced.
const (
	fallbackPrompted = "prompted" // neither the provider nor a tool enforces it
	FallbackDefault  = "default"
	FallbackError    = "error"
)

type schemaValidated struct {
	RequestID string `json:"request_id"`
	Subsystem string `json:"subsystem"`
	Schema    string `json:"schema"`
	Mode      string `json:"mode"`
	Valid     bool   `json:"valid"`
	Retries   int    `json:"retries"`
}

type schemaFallback struct {
	schemaValidated
	Reason string `json:"reason"`
}

// EmitSchema reports what the last check of the request's answers came to.
func (r *Review) EmitSchema() {
	if !r.Events.On() || !r.Result.checked {
		return
	}
	r.Events.Emit(eventSchema, r.Principal.Account, r.schemaEvent())
	if r.Result.mode == structured.Prompted {
		r.EmitSchemaFallback(fallbackPrompted)
	}
}

// EmitSchemaFallback emits the event of an answer whose schema was not simply enforced; reason is why.
func (r *Review) EmitSchemaFallback(reason string) {
	if r.Events.On() {
		r.Events.Emit(eventSchemaFallback, r.Principal.Account, schemaFallback{r.schemaEvent(), reason})
	}
}

func (r *Review) schemaEvent() schemaValidated {
	return schemaValidated{r.ID, r.Hints.Subsystem, r.Schema.Name(), r.Result.mode.String(), r.Result.valid, r.Result.retries}
}
