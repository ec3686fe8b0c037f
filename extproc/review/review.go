// Package review decides about answers before they are sent: whether they follow the requested schema, whether a second model agrees (verification),
// and whether a better model should answer (escalation). It makes no calls and charges nothing; the state machine does, following these decisions.
package review

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/event"
)

// Review holds the checks of one request's answers, and their results. The state machine owns it. Not safe for concurrent use, except PlanFor of a
// request without a schema.
type Review struct {
	*request.View
	Events *event.Sink // may be nil

	Schema       *structured.Schema // of the answer; nil: none
	clientFormat wire.Format        // the response format of the client's own request
	clientTools  []chat.Tool        // that the client offers
	clientChoice chat.ToolChoiceMode
	plans        []schemaPlan
	Result       *SchemaResult // of the last check of an answer
	Retried      int           // validation retries so far

	Verification *Verification // by a second model; nil: none
	Escalation   *Escalation   // to a better tier; nil: none
}
