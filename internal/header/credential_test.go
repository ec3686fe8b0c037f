package header_test

import (
	"testing"

	"bardo.money/gateway/internal/header"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"authorization", "x-api-key", "x-goog-api-key", "api-key", "proxy-authorization", "cookie", "payment-signature", "x-payment", "x-bardo-upstream-key",
		"x-bardo-delegation", "x-bardo-proof", "x-auth-token", "x-access-token", "x-amz-security-token", "ocp-apim-subscription-key",
		"cf-access-client-id", "cf-access-client-secret", "cf-access-token", "cf-access-jwt-assertion", "x-goog-iap-jwt-assertion",
	} {
		if !header.IsCredential(name) {
			t.Errorf("%s is no credential", name)
		}
	}
	for _, name := range []string{"accept", "anthropic-version", "user-agent", "x-bardo-subsystem", "x-bardo-wallet", "payment-response", ""} {
		if header.IsCredential(name) {
			t.Errorf("%s is a credential", name)
		}
	}
	for _, name := range header.GatewayKeys() {
		if !header.IsCredential(name) {
			t.Errorf("a key of the gateway is read from %s, which is no credential", name)
		}
	}
}
