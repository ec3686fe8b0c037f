package run

import (
	"time"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy/ledger"
)

// The events of a ledger that cannot be written.
var (
	eventUnwritable = event.Declare[ledgerUnwritable]("ledger:unwritable", "The ledger cannot be written.")
	eventWritable   = event.Declare[ledgerWritable]("ledger:writable", "The ledger can be written again.")
)

type ledgerUnwritable struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

type ledgerWritable struct {
	Reason  string    `json:"reason"` // of what is over
	Since   time.Time `json:"since"`
	Seconds float64   `json:"seconds"`
	Written int       `json:"written"` // changes that waited
}

// tellOutage reports that the ledger cannot be written, or can be again.
func (r *reporting) tellOutage(o ledger.Outage) {
	since := o.Err.Since.UTC()
	if o.Ended {
		eventWritable.Emit(&r.events, "", ledgerWritable{o.Err.Reason, since, o.Lasted.Seconds(), o.Written})
		return
	}
	eventUnwritable.Emit(&r.events, "", ledgerUnwritable{o.Err.Reason, since})
}

func (d *dataPath) ledgerState() control.Ledger {
	m := d.books.Unwritten().InMemory
	return control.Ledger{Unready: api.Unready(d.books), Charges: m.Charges, Micro: int64(m.Amount), Store: d.store}
}
