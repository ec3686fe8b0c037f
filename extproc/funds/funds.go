// Package funds determines what one request may spend, and from where: the limits of its key, the budgets stated by its agent, its session's budget,
// and the reservation of its maximum cost before it is sent. The bill (extproc/meter) holds the money; the state machine decides when these functions
// are called.
package funds

import (
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/session"
)

// Funds is the spending state of one request. The state machine that serves the request owns it, and everything that it points to. Not safe for
// concurrent use.
type Funds struct {
	*report.Report

	Meter    *meter.Meter
	Ledger   *ledger.Ledger
	Searches *budget.Cycles
	Sessions *session.Book // nil: sessions are off

	sideHeld policy.Micro     // reserved for a side call and the request together; 0 for none
	session  *session.Session // nil if the request names none
	hold     *session.Hold    // from the session's budget
	floor    *floor           // why only free models serve the request; nil: they need not
}
