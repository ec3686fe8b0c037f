package sdk

import (
	"fmt"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestP16SDKsReachWhatTheirVendorsKeep through users' own keys. Anthropic's SDK follows the address of a batch's results wherever it
// leads, with the gateway's key: it must lead to the gateway.
func TestP16SDKsReachWhatTheirVendorsKeep(t *testing.T) {
	t.Parallel()
	openai := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	anthropic := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: settings + fmt.Sprintf(`
providers:
  direct:
    keys:
      - {provider: openai, api_key: %s, base_url: %q}
      - {provider: anthropic, api_key: %s, base_url: %q}
`, openai.Key, openai.URL, anthropic.Key, anthropic.URL)})
	mustDrive(t, python("kept_driver.py")(t), access(g)...)
	if openai.Saw(g.Key) || anthropic.Saw(g.Key) {
		t.Error("a vendor saw the gateway's key")
	}
}
