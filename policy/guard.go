package policy

// Guards are a key's policies that override the configuration; "" selects the configured one.
type Guards struct {
	Injection string `json:"injection,omitempty"` // one of InjectionPolicies, for texts that seem to contain instructions for the model
	PII       string `json:"pii,omitempty"`       // one of PIIPolicies, for personal data and secrets
}

// InjectionPolicies and PIIPolicies are the policies that a key may have.
var (
	InjectionPolicies = []string{"off", "flag", "block", "quarantine"}
	PIIPolicies       = []string{"off", "detect", "mask", "block"}
)
