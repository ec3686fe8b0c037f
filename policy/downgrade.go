package policy

// BudgetAction is what a budget or an empty balance did to a request.
type BudgetAction string

// The actions. A request that fits into its budgets has none.
const (
	Downgraded BudgetAction = "downgraded" // served by a cheaper model, or a free one
	Blocked    BudgetAction = "blocked"    // refused
)

// BudgetDecision is the outcome of a request that its budgets or its balance do not cover, for its record and its event.
type BudgetDecision struct {
	Action      BudgetAction `json:"action"`
	Reason      string       `json:"reason"`                      // the fault that the requested model got, or would have got
	Requested   ModelID      `json:"asked_model,omitempty"`       // the first candidate; "" where the request's body was not read
	Alternative ModelID      `json:"alternative_model,omitempty"` // the model that serves it
	RetryAfter  int64        `json:"retry_after_s,omitempty"`     // seconds until the requested model may be used again; 0: unknown
}
