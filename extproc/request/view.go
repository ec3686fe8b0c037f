// Package request is one request as the steps that serve it read it: what the client sent, what the gateway derived from it, and pure functions of
// both: the payer, a candidate's maximum cost, the answer's maximum length, supported features. It makes no calls and reserves no money.
package request

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy/profile"
)

// View is a request and its configuration. The state machine that serves the request owns it and alone changes it; the steps only read it. Not safe
// for concurrent use, except Config.
type View struct {
	pipeline.Exchange
	Config      *runtime.Config // as of the request's arrival; never replaced
	Head        stream.Head
	Dialect     wire.Dialect  // the client's format
	HeaderHints hint.Present  // the hints in the headers; those in the body do not replace them
	Started     time.Time     // when the request headers arrived
	Arrived     time.Time     // when the whole request body had arrived
	Waited      time.Duration // time spent waiting for a coalesced request's answer, and for side calls

	Original        *chat.Request     // the request before layers changed it, which answers echo to the client; nil before the layers ran
	ClientModel     string            // the model as the client wrote it
	OnlyModels      []string          // models that the request's session may use; none for any
	OwnKey          OwnKey            // X-Bardo-Upstream-Key: the user's own provider key
	PaysItself      bool              // it is charged by payment instead of a key, or is answered with its price: its owner is not known yet
	NamesStored     bool              // the request names a resource that one provider stores (a file, a response)
	NoSearch        bool              // the web search budget is spent
	ProfileDecision *profile.Decision // parameters from the subsystem's profile and the hints; nil: none
}
