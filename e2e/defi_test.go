package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestR11FactsAreAddedToWhatMentionsThem: at the end of the last message, shown, and not to requests that mention nothing, or are sealed. A file that is wrong
// stops the start, with the place.
func TestR11FactsAreAddedToWhatMentionsThem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "facts.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("chains: [{id: 8453, name: Base}]\ntokens: [{symbol: USDC, chain: 8453, address: \"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913\", decimals: 6}]\n")
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{Config: quick + "pipeline: {defi: {facts: " + path + "}}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m"}}}}}
	g := gateway.Run(t, o)
	const fact = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913, 6 decimals"
	got := g.Chat(t, `{"model":"m","messages":[{"role":"system","content":"You trade."},{"role":"user","content":"Swap 5 USDC."}]}`)
	sent := string(lastOf(t, p).Body)
	if got.Status != http.StatusOK || !strings.Contains(sent, fact) || strings.Index(sent, fact) < strings.Index(sent, "Swap 5 USDC") {
		t.Errorf("%d, sent %s", got.Status, sent)
	}
	if said := got.Header.Get("X-Bardo-Pipeline"); !strings.Contains(said, ";facts=1;added=") {
		t.Errorf("X-Bardo-Pipeline: %s", said)
	}
	g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"Hello there."}]}`)
	if sent := string(lastOf(t, p).Body); strings.Contains(sent, "operator's list") {
		t.Errorf("sent %s", sent)
	}
	g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"Sell 7 USDC."}]}`, "X-Bardo-Pipeline: minimal")
	if sent := string(lastOf(t, p).Body); strings.Contains(sent, "operator's list") {
		t.Errorf("minimal: sent %s", sent)
	}
	write("tokens: [{symbol: USDC, chain: 8453, address: \"0x83\", decimals: 6}]\n")
	if r := g.Try(t, "config", "check", "-c", filepath.Join(g.Home, "config.yaml")); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "tokens[0]: address: expected 0x and 40 hexadecimal digits") {
		t.Errorf("%+v", r)
	}
	g.AssertSound(t)
}
