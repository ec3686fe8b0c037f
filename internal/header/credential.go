package header

import "slices"

// The credential headers that more than one package uses.
const (
	Authorization = "authorization"
	APIKey        = "x-api-key"      // Anthropic's clients
	GoogleKey     = "x-goog-api-key" // Google's clients
	AzureKey      = "api-key"        // Azure's clients
	Payment       = "payment-signature"
	Payment1      = "x-payment" // version 1 of the protocol
	UpstreamKey   = "x-bardo-upstream-key"
	Delegation    = "x-bardo-delegation"
	Proof         = "x-bardo-proof"
)

// GatewayKeys returns the headers of a key of this gateway, in order of precedence. Azure's is not among them: clients of the formats served here do
// not send it.
func GatewayKeys() [3]string { return [...]string{APIKey, GoogleKey, Authorization} }

// ProviderKeys returns the headers of providers' keys.
func ProviderKeys() []string { return []string{Authorization, APIKey, AzureKey, GoogleKey} }

// credentials are the request headers whose value lets others act as its sender, or spend their money: those above, HTTP's own, and those of services
// in front of a server.
var credentials = slices.Concat(ProviderKeys(), []string{
	Payment, Payment1, UpstreamKey, Delegation, Proof,
	"proxy-authorization", "cookie", "x-auth-token", "x-access-token", "x-amz-security-token", "ocp-apim-subscription-key",
	"cf-access-client-id", "cf-access-client-secret", "cf-access-token", "cf-access-jwt-assertion", "x-goog-iap-jwt-assertion",
})

// IsCredential reports whether a request header (name in lower case) holds a credential: its value must never be logged or stored, nor sent to
// another server than its own. Unknown headers may hold credentials, too: prefer lists of headers that are kept.
func IsCredential(name string) bool { return slices.Contains(credentials, name) }
