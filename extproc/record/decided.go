package record

import (
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

// EventDecided is the event, and the audit log line, of a request with a decision to audit.
var EventDecided = event.Declare[Decided]("request:decided",
	"A request is over that was refused, was private, was judged by rules, or had personal data or injected instructions.").Audited()

// Decided lists the decisions about a request. It has no content.
type Decided struct {
	RequestID   string            `json:"request_id"`
	Operation   string            `json:"operation"`
	Status      int               `json:"status"`
	Error       string            `json:"error,omitempty"`   // why it was refused: a code of docs/errors.md
	Outcome     string            `json:"outcome,omitempty"` // "" if no call was made
	Provider    policy.ProviderID `json:"provider,omitempty"`
	Model       policy.ModelID    `json:"model,omitempty"`
	Subsystem   string            `json:"subsystem,omitempty"`
	GolemID     string            `json:"golem_id,omitempty"`
	PrivacyTier string            `json:"privacy_tier,omitempty"` // required tier: private, tee, e2e
	Security    string            `json:"security_class,omitempty"`
	Attestation string            `json:"attestation_hash,omitempty"`
	Notes       []LayerNote       `json:"layers,omitempty"`    // of protecting layers
	Decisions   []policy.Tag      `json:"decisions,omitempty"` // of the operator's rules
	Client      string            `json:"client,omitempty"`    // the address of a caller that was refused
	Cost        policy.Micro      `json:"cost_usd"`
}

// LayerNote is the note of a layer's run, as in X-Bardo-Pipeline: "masked;email=2".
type LayerNote struct {
	Layer string `json:"layer"`
	Note  string `json:"note"`
}
