// Package funds is what one request may spend, and from where: the limits of its key, the budgets that its agent has stated, its session's budget, and the
// reservation of its highest possible cost before it is sent. The bill (extproc/meter) holds the money; when something is asked of it is decided by the state
// machine.
package funds

import (
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/budget"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/session"
)

// Funds are those of one request. The state machine that serves the request owns them, and everything that they point to. Not safe for concurrent use.
type Funds struct {
	*report.Report

	Meter    *meter.Meter
	Ledger   *ledger.Ledger
	Searches *budget.Cycles
	Sessions *session.Book // nil: there are none

	sideHeld policy.Micro     // reserved with a call that a layer had made, for that and the request; 0 for none
	session  *session.Session // nil: the request names none
	hold     *session.Hold    // of the session's budget
	floor    *floor           // why free models alone serve the request; nil: they need not
}
