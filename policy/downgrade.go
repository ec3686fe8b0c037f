package policy

// BudgetAction is what a budget or an empty balance did to a request.
type BudgetAction string

// The actions. A request that fits into its budgets has none.
const (
	Downgraded BudgetAction = "downgraded" // served by a cheaper model, or a free one
	Blocked    BudgetAction = "blocked"    // refused
)

// BudgetDecision is what became of a request that its budgets or its balance do not pay for, as its record and its event have it.
type BudgetDecision struct {
	Action      BudgetAction `json:"action"`
	Reason      string       `json:"reason"`                      // the refusal that the model that was asked for got, or would have got
	Asked       ModelID      `json:"asked_model,omitempty"`       // the first candidate; "" where the request's body was not read
	Alternative ModelID      `json:"alternative_model,omitempty"` // that serves it
	RetryAfter  int64        `json:"retry_after_s,omitempty"`     // when the model that was asked for may be asked again, in seconds; 0: not known
}
