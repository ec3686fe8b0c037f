// Package request is one request as the steps that serve it read it: what the client sent, what the gateway derived from it, and pure
// functions of both: who pays, the maximum cost of a candidate, the maximum length of the answer, what a candidate supports. It makes no
// calls and reserves no money.
package request

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy/profile"
)

// View is a request and its configuration. The state machine that serves the request owns it and is the only one that changes it; the steps
// read it. Not safe for concurrent use, except Config.
type View struct {
	pipeline.Exchange
	Config      *runtime.Config // of the time when the request arrived; never replaced
	Head        stream.Head
	Dialect     wire.Dialect  // the client's format
	HeaderHints hint.Present  // the hints that the headers have; those of the body do not replace them
	Started     time.Time     // when the request headers arrived
	Arrived     time.Time     // when the whole request body had arrived
	Waited      time.Duration // time spent waiting for a coalesced request's answer, and for side calls

	Asked           *chat.Request     // the request before layers changed it, as answers repeat it to the client; nil before they ran
	ClientModel     string            // the model as the client wrote it
	OnlyModels      []string          // that the request's session may use; none for any
	OwnKey          provider.Secret   // X-Bardo-Upstream-Key: the user's own provider key
	PaysItself      bool              // no key is charged, but a payment, or the request is told its price: it is nobody's who is known here
	NamesStored     bool              // the request names a resource that one provider stores (a file, a response)
	NoSearch        bool              // the web search budget is spent
	ProfileDecision *profile.Decision // parameters from the subsystem's profile and the hints; nil: none
}
