package runtime

// The operator's rules for the review of answers.

// Structured configures structured outputs. The zero value: the client's own schema is sent unchanged and not checked, and subsystems have no
// schemas.
type Structured struct {
	Enabled    bool
	PreferTool bool // a synthetic tool is preferred to the provider's own enforcement
	Validate   bool // answers are validated; else JSON is extracted and sent unchecked
	Retries    int  // the maximum number of corrections of one request
}

// VerifyRisk configures verification of the subsystem `risk` for requests without the hint.
type VerifyRisk string

// The choices.
const (
	VerifyAuto      VerifyRisk = "auto" // if a model with the feature cross_verify can be the verifier; "" is the same
	VerifyAlways    VerifyRisk = "always"
	VerifyOnRequest VerifyRisk = "off"
)

// Escalation configures the escalation of heartbeats from tier T1 to T2. The zero value: only requests with the hint.
type Escalation struct {
	On    bool
	Floor float64 // a decision with a lower confidence escalates, 0 to 1
}
