package record

import (
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

// EventDecided is the event, and the line of the audit log, of a request about which something was decided.
var EventDecided = event.Declare[Decided]("request:decided",
	"A request is over that was refused, was private, was judged by rules, or had personal data or injected instructions.").Audited()

// Decided is what was decided about a request. It has no content.
type Decided struct {
	RequestID   string            `json:"request_id"`
	Operation   string            `json:"operation"`
	Status      int               `json:"status"`
	Error       string            `json:"error,omitempty"`   // why it was refused: a code of docs/errors.md
	Outcome     string            `json:"outcome,omitempty"` // "" where no call was made
	Provider    policy.ProviderID `json:"provider,omitempty"`
	Model       policy.ModelID    `json:"model,omitempty"`
	Subsystem   string            `json:"subsystem,omitempty"`
	GolemID     string            `json:"golem_id,omitempty"`
	PrivacyTier string            `json:"privacy_tier,omitempty"` // that it needed: private, tee, e2e
	Security    string            `json:"security_class,omitempty"`
	Attestation string            `json:"attestation_hash,omitempty"`
	Notes       []LayerNote       `json:"layers,omitempty"`    // of the layers that protect
	Decisions   []policy.Tag      `json:"decisions,omitempty"` // of the operator's rules
	Client      string            `json:"client,omitempty"`    // the address of a caller who was not let in
	Cost        policy.Micro      `json:"cost_usd"`
}

// LayerNote is the note of a layer's run, as in X-Bardo-Pipeline: "masked;email=2".
type LayerNote struct {
	Layer string `json:"layer"`
	Note  string `json:"note"`
}
