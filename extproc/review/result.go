package review

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

// HeaderSchema reports how the schema of the answer was enforced, and whether the answer is valid.
const HeaderSchema = "x-bardo-schema"

// DegradedDefault is the entry in X-Bardo-Degraded for an answer that is its schema's default.
const DegradedDefault = "schema_default"

// SchemaResult is the value of X-Bardo-Schema.
type SchemaResult struct {
	mode              structured.Mode
	checked           bool
	valid             bool
	Defaulted         bool
	retries           int
	accepted, choices int // for an answer of several choices
}

// String returns the header's value. The mode alone means that the answer was not checked.
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

// SchemaStatus returns the value of X-Bardo-Schema as known now, for an answer of candidate to; "" for a request without a schema.
func (r *Review) SchemaStatus(to *policy.Resolution) string {
	switch {
	case r.Schema == nil, to.Provider == "": // no candidate was chosen
		return ""
	case r.Result != nil:
		return r.Result.String()
	}
	if mode := r.modeAt(to); mode != structured.None {
		return mode.String()
	}
	return ""
}

// HoldsBack reports whether an answer of a plan is held until it is complete and checked.
func (r *Review) HoldsBack(plan *structured.Plan) bool {
	return plan != nil && (!r.Request.Stream || !plan.Streamable || r.MayReplaceAnswer())
}

// SetResult records the result of an answer's validation. invalid is true for an answer that was checked and failed.
func (r *Review) SetResult(plan *structured.Plan, j *Validation) (invalid bool) {
	r.Result = &SchemaResult{
		mode: plan.Mode, checked: !j.Open && r.Config.Structured.Validate, valid: j.Valid, retries: r.Retried,
		accepted: j.accepted, choices: len(j.Choices),
	}
	return r.Result.checked && !j.Valid
}

// SchemaError is the cause of an attempt that failed because its answer does not follow the schema.
type SchemaError struct{}

func (SchemaError) Error() string { return "the answer does not have the form that was asked for" }

// TextMessage returns a message with one part of text.
func TextMessage(r chat.Role, text string) chat.Message {
	return chat.Message{Role: r, Parts: []chat.Part{{Kind: chat.PartText, Text: text}}}
}

// The events of schemas.
var (
	eventSchema         = event.Declare[schemaValidated]("inference:schema_validated", "An answer was checked against its schema.")
	eventSchemaFallback = event.Declare[schemaFallback]("inference:schema_fallback", "The provider did not enforce a schema.")
)

// Reasons why a schema was not enforced by the provider or a tool.
const (
	fallbackPrompted = "prompted" // it is only described in the prompt
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

// EmitSchema emits the event of the last validation.
func (r *Review) EmitSchema() {
	if !r.Events.On() || !r.Result.checked {
		return
	}
	eventSchema.Emit(r.Events, r.Principal.Account, r.schemaEvent())
	if r.Result.mode == structured.Prompted {
		r.EmitSchemaFallback(fallbackPrompted)
	}
}

// EmitSchemaFallback emits the event of an answer whose schema was not enforced; reason is one of the reasons above.
func (r *Review) EmitSchemaFallback(reason string) {
	if r.Events.On() {
		eventSchemaFallback.Emit(r.Events, r.Principal.Account, schemaFallback{r.schemaEvent(), reason})
	}
}

func (r *Review) schemaEvent() schemaValidated {
	return schemaValidated{r.ID, r.Hints.Subsystem, r.SchemaName(), r.Result.mode.String(), r.Result.valid, r.Result.retries}
}
