package header

import "slices"

// The headers with credentials that more than one package names.
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

// GatewayKeys are the headers that a key of this gateway is read from, in order of precedence. Azure's is not among them: no format that is
// served here has clients that send it.
func GatewayKeys() [3]string { return [...]string{APIKey, GoogleKey, Authorization} }

// ProviderKeys are the headers in which providers take their keys.
func ProviderKeys() []string { return []string{Authorization, APIKey, AzureKey, GoogleKey} }

// credentials are the request headers whose value lets somebody act as its sender, or spend their money: those above, HTTP's own, and those of
// services that stand before a server.
var credentials = slices.Concat(ProviderKeys(), []string{
	Payment, Payment1, UpstreamKey, Delegation, Proof,
	"proxy-authorization", "cookie", "x-auth-token", "x-access-token", "x-amz-security-token", "ocp-apim-subscription-key",
	"cf-access-client-id", "cf-access-client-secret", "cf-access-token", "cf-access-jwt-assertion", "x-goog-iap-jwt-assertion",
})

// IsCredential reports whether a request header (name in lower case) holds a credential: its value is never logged or stored, nor sent to any server but the
// one that it is for. A header that is not known here may be one all the same: where it is possible, list what is kept instead.
func IsCredential(name string) bool { return slices.Contains(credentials, name) }
