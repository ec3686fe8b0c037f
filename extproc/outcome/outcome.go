// Package outcome records what became of one request: its attempts and their failures, the answer, what the calls cost, and its end. It writes the
// charge to the ledger, and reports to the sinks: metrics, providers' health, layers, the record and the feed of finished requests. The state
// machine decides when these functions are called, and sends what the client gets.
package outcome

import (
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/effects"
	"bardo.money/gateway/extproc/funds"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/ranking"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Outcome is the outcome of one request. The state machine that serves the request owns it, and everything that it points to. Not safe for concurrent
// use.
type Outcome struct {
	*report.Report
	*Sinks

	Owner   Owner
	Funds   *funds.Funds
	Effects *effects.Effects
	Ranking *ranking.Ranking
	Rounds  *rounds.State

	Turn       conversation.Turn // the conversation's turn, if the gateway chooses the model
	Current    *reading.Answer   // the last answer that began; nil for none
	Invalid    bool              // an answer did not follow its schema
	Unanswered *fault.Fault      // why no candidate answered; coalesced requests get it as well

	proof attestation.StoredToken // the stored proof of the answer that is being sent
}

// Owner is the state machine that serves the request.
type Owner interface {
	// Path returns the name of the path that serves the request, for its record.
	Path() string
	// Yield lets other requests of the same thread run first.
	Yield()
}

// Sinks are where a gateway's outcomes are reported to. Attestations and Governor may be nil. Safe for concurrent use.
type Sinks struct {
	Health        Health
	Ledger        *ledger.Ledger
	Meter         *meter.Meter
	Conversations *conversation.Memory
	Reasonings    *api.ReasoningStore
	Attestations  *attestation.Keeper
	Governor      *governor.Governor
	Feed          *event.Feed[record.Finished]
}

// Health is the health of providers. Safe for concurrent use.
type Health interface {
	// Report records the result of one attempt.
	Report(r policy.Result)
}
