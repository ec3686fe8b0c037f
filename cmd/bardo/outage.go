package main

import (
	"context"
	"net/http"
	"time"

	"bardo.money/gateway/extproc"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// The events of a ledger that cannot be written.
const (
	eventUnwritable = "ledger:unwritable"
	eventWritable   = "ledger:writable"
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
func (g *gateway) tellOutage(o ledger.Outage) {
	since := o.Err.Since.UTC()
	if o.Ended {
		g.events.Emit(eventWritable, "", ledgerWritable{o.Err.Reason, since, o.Lasted.Seconds(), o.Written})
		return
	}
	g.events.Emit(eventUnwritable, "", ledgerUnwritable{o.Err.Reason, since})
}

// ledgerState is what a running gateway knows of its ledger and others do not: why it cannot write it, and what it has in memory alone.
type ledgerState struct {
	Unready string `json:"unready"` // why it cannot be written; "" if it can
	Charges int    `json:"charges"`
	Micro   int64  `json:"micro_usd"`
}

func (g *gateway) ledgerState() ledgerState {
	m := g.books.Unwritten().InMemory
	return ledgerState{Unready: extproc.Unready(g.books), Charges: m.Charges, Micro: int64(m.Amount)}
}

func (s ledgerState) waiting() ledger.Waiting {
	return ledger.Waiting{Charges: s.Charges, Amount: policy.Micro(s.Micro)}
}

// ledgerState asks the gateway that runs on this state; the zero value where none does.
func (h home) ledgerState(ctx context.Context) (s ledgerState) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := control(ctx, h, http.MethodGet, "/ledger", &s); err != nil {
		return ledgerState{}
	}
	return s
}
