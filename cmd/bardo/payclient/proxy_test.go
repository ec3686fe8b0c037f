package payclient

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

// TestNoCredentialGoesToTheServerThatIsPaid but a key for a provider, which its header says is for a gateway.
func TestNoCredentialGoesToTheServerThatIsPaid(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	kept := []string{"Anthropic-Version", "Content-Type", "User-Agent", "X-Bardo-Subsystem", "X-Bardo-Upstream-Key"}
	for _, name := range append([]string{
		"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Proxy-Authorization", "Cookie", "Payment-Signature", "X-Payment", "X-Bardo-Delegation",
		"X-Bardo-Proof", "X-Auth-Token", "X-Access-Token", "X-Amz-Security-Token", "Ocp-Apim-Subscription-Key", "Cf-Access-Client-Secret",
		"Accept-Encoding", "Connection", "Proxy-Connection", "Content-Length",
	}, kept...) {
		h.Set(name, "secret")
	}
	if got := slices.Sorted(maps.Keys(requestHeaders(h))); !slices.Equal(got, kept) {
		t.Errorf("got  %q\nwant %q", got, kept)
	}
}
