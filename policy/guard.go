package policy

// Guards are what happens to a key's requests where it differs from the configuration: "" is what is configured.
type Guards struct {
	Injection string `json:"injection,omitempty"` // one of InjectionPolicies: texts that seem to hold instructions for the model
	PII       string `json:"pii,omitempty"`       // one of PIIPolicies: personal data and secrets
}

// InjectionPolicies and PIIPolicies are the policies that a key may have.
var (
	InjectionPolicies = []string{"off", "flag", "block", "quarantine"}
	PIIPolicies       = []string{"off", "detect", "mask", "block"}
)
