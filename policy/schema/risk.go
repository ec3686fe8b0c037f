package schema

// RiskAssessment says whether a position may be taken, and at what size.
type RiskAssessment struct {
	Approved        bool       `json:"approved"`
	AdjustedSizeUSD float64    `json:"adjusted_size_usd"` // at least 0; it may be less than what was requested
	Layers          RiskLayers `json:"layers"`
	Warnings        []string   `json:"warnings"` // they do not block
	Reasoning       *string    `json:"reasoning,omitempty"`
}

// RiskLayers are the results of the risk engine's layers.
type RiskLayers struct {
	HardShields        LayerResult `json:"hard_shields"`
	PositionSizing     LayerResult `json:"position_sizing"`
	AdaptiveGuardrails LayerResult `json:"adaptive_guardrails"`
	Observation        LayerResult `json:"observation"`
	DefiThreats        LayerResult `json:"defi_threats"`
}

// LayerResult is the result of one layer.
type LayerResult struct {
	Passed bool    `json:"passed"`
	Score  float64 `json:"score"` // 0 to 1
	Detail string  `json:"detail"`
}

// Severity is how severe a threat or a factor of risk is.
type Severity string

// The severities.
const (
	Low      Severity = "low"
	Medium   Severity = "medium"
	High     Severity = "high"
	Critical Severity = "critical"
)

// CognitionPlan is the agent's next action. It may move money, so an answer that does not follow the schema is an error: it is neither repaired nor
// replaced by a default.
type CognitionPlan struct {
	Action     CognitionAction  `json:"action"`
	Confidence float64          `json:"confidence"` // 0 to 1
	Rationale  string           `json:"rationale"`  // at most 500 characters
	Parameters *TradeParameters `json:"parameters,omitempty"`
	RiskFlags  []string         `json:"risk_flags"`
	BlockedBy  *string          `json:"blocked_by,omitempty"`
}

// CognitionAction is what a plan does.
type CognitionAction string

// The actions of a plan.
const (
	Enter         CognitionAction = "enter"
	Exit          CognitionAction = "exit"
	Hold          CognitionAction = "hold"
	Hedge         CognitionAction = "hedge"
	EmergencyHalt CognitionAction = "emergency_halt"
)

// TradeParameters are the parameters of a trade.
type TradeParameters struct {
	TokenIn     string `json:"token_in"`     // an address: 0x and 40 hexadecimal digits
	TokenOut    string `json:"token_out"`    // the same
	AmountIn    string `json:"amount_in"`    // wei, as decimal digits: a float would lose precision
	SlippageBPS uint16 `json:"slippage_bps"` // hundredths of a percent, 0 to 2000
	Deadline    uint64 `json:"deadline"`     // Unix time in seconds
}

// RiskRationale has the reasons for a risk and a recommendation. An invalid answer is an error, as for CognitionPlan.
type RiskRationale struct {
	RiskScore      float64            `json:"risk_score"` // 0 to 1
	Factors        []RiskFactor       `json:"factors"`
	Recommendation RiskRecommendation `json:"recommendation"`
}

// RiskFactor is one reason.
type RiskFactor struct {
	Name        string   `json:"name"`
	Severity    Severity `json:"severity"`
	Description string   `json:"description"`
}

// RiskRecommendation is the recommended action.
type RiskRecommendation string

// The recommendations.
const (
	Proceed    RiskRecommendation = "proceed"
	ReduceSize RiskRecommendation = "reduce_size"
	Defer      RiskRecommendation = "defer"
	Abort      RiskRecommendation = "abort"
)

// MemoryWriteIntent is an entry to be written to memory. An invalid answer is an error, as for CognitionPlan.
type MemoryWriteIntent struct {
	EntryType          MemoryEntryType `json:"entry_type"`
	Content            string          `json:"content"`
	Confidence         float64         `json:"confidence"` // 0 to 1
	TaskClass          string          `json:"task_class"`
	AttestationReceipt *string         `json:"attestation_receipt,omitempty"`
}

// MemoryEntryType is what kind of memory an entry is.
type MemoryEntryType string

// The kinds of memories.
const (
	Insight    MemoryEntryType = "insight"
	Heuristic  MemoryEntryType = "heuristic"
	Warning    MemoryEntryType = "warning"
	CausalLink MemoryEntryType = "causal_link"
)
