// Package review decides about answers before they go out: whether they follow the schema that was asked for, whether a second model agrees
// with them, and whether a better model is to answer instead. It makes no calls and moves no money: the state machine does, as the values
// here say.
package review

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/event"
)

// Review is what one request's answers are held to, and what came of that. The state machine owns it. Not safe for concurrent use, but for
// PlanFor where the request has no schema.
type Review struct {
	*request.View
	Events *event.Sink // may be nil

	Schema       *structured.Schema // of the answer; nil: none
	clientFormat wire.Format        // what the client itself says of its answer's form
	clientTools  []chat.Tool        // that the client offers
	clientChoice chat.ToolChoiceMode
	plans        []schemaPlan
	Result       *SchemaResult // of the last check of an answer
	Retried      int           // how often a model was told what is wrong with its answer

	Verification *Verification // by a second model; nil: none is wanted
	Escalation   *Escalation   // to a better tier; nil: it is not called
}
