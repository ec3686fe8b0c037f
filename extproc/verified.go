package extproc

import (
	"encoding/json"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/policy"
)

// What is told of a verification.

// The event of a verification.
const eventVerified = "inference:verified"

type verified struct {
	RequestID string            `json:"request_id"`
	Subsystem string            `json:"subsystem"`
	Result    string            `json:"result"`
	Reason    string            `json:"reason,omitempty"` // why it was skipped
	Provider  policy.ProviderID `json:"provider"`         // of the answer that is given
	Model     policy.ModelID    `json:"model"`
	By        policy.ProviderID `json:"by_provider,omitempty"` // who was asked besides
	ByModel   policy.ModelID    `json:"by_model,omitempty"`
	Agree     int               `json:"agree"`
	Fields    int               `json:"fields"`
}

func (x *exchange) tellVerified(to *policy.Resolution) {
	if !x.gw.Events.On() {
		return
	}
	o := x.opinions
	told := verified{
		RequestID: x.ID, Subsystem: x.Hints.Subsystem, Result: o.result, Reason: o.skipped, Provider: to.Provider, Model: to.Model,
		Agree: o.compared.Agreed(), Fields: len(o.compared.Fields),
	}
	if o.by != nil {
		told.By, told.ByModel = o.by.Provider, o.by.Model
	}
	x.gw.Events.Emit(eventVerified, x.Principal.Account, told)
}

// verification is the part of the request's record: names of fields, and nothing that stands in them. It is nil for a request that is not
// verified.
func (x *exchange) verification() *record.Verification {
	o := x.opinions
	if o == nil || o.result == "" {
		return nil
	}
	r := &record.Verification{Result: o.result, Reason: o.skipped, StricterBy: o.compared.By}
	if o.by != nil {
		r.By = &record.Model{Provider: o.by.Provider, Model: o.by.Model}
	}
	switch o.given {
	case structured.First:
		r.Given = "first"
	case structured.Second:
		r.Given = "second"
	case structured.Neither:
	}
	for i := range o.compared.Fields {
		f := &o.compared.Fields[i]
		r.Fields = append(r.Fields, record.Field{Path: f.Path, Agree: f.Agree})
	}
	return r
}

// withVerification puts the verification, with the values of both answers, into the JSON object that stands beside an answer.
func (x *exchange) withVerification(object []byte) []byte {
	r := x.verification()
	if r == nil || !x.fullChain || len(object) == 0 || object[len(object)-1] != '}' {
		return object
	}
	for i := range x.opinions.compared.Fields {
		f := &x.opinions.compared.Fields[i]
		r.Fields[i].First, r.Fields[i].Second = json.RawMessage(f.First), json.RawMessage(f.Second)
	}
	b, err := json.Marshal(r)
	if err != nil {
		x.gw.Log.Error("an answer's verification cannot be written", "request", x.ID, "error", err)
		return object
	}
	object = append(object[:len(object)-1:len(object)-1], `,"verification":`...)
	return append(append(object, b...), '}')
}
