package extproc

import "bardo.money/gateway/policy/ledger"

// Requests that end before a provider is called have no row in the ledger: a client that ignores refusals sends thousands a second. They
// are counted by key, minute and reason, and the latest can be looked up.

// neverCalled reports whether the request ended, or was given up by its client, before any provider was called or a stored answer was
// found.
func (x *exchange) neverCalled() bool {
	to, _ := x.bill.InFlight()
	return to == nil && len(x.attempts) == 0 && len(x.bill.Calls()) == 0 && x.stored == nil && x.current == nil
}

// refuse counts the request among the refusals. One that could not be read, and whose client has gone, is none.
func (x *exchange) refuse() {
	if x.fault == nil && x.Request == nil {
		return
	}
	s := &summary{x: x, outcome: x.unfinished(), to: x.billed(nil)}
	x.settled = s
	r := ledger.Refusal{RequestID: x.ID, Account: x.Principal.Account, At: x.started}
	r.Status, r.Reason = x.verdict()
	if x.Request != nil {
		r.Record = s.record()
	}
	x.gw.Ledger.Refuse(r)
}
