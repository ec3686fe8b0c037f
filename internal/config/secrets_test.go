package config_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
)

func TestSecretsAreFoundWhereverTheyAreConfigured(t *testing.T) {
	const text = `
providers:
  openai: {api_key: one, api_keys: [two, "env:THREE"]}
  venice: {api_key: "${FOUR}"}
  direct: {keys: [{provider: anthropic, api_key: five}, {provider: openai, api_key: six}]}
  custom: [{id: a, endpoints: ["http://127.0.0.1:1/v1"], api_key: seven, api_keys: [eight]}, {id: b, endpoints: ["http://127.0.0.1:2/v1"]}]
`
	cfg, problems := config.Parse("f.yaml", []byte(text), variables("THREE=three", "FOUR=four", "ANTHROPIC_API_KEY=nine", "BANKR_API_KEY=ten"), kinds...)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	var got []string
	for _, s := range cfg.Secrets() {
		if s.IsSet() {
			got = append(got, s.Reveal())
		}
	}
	slices.Sort(got)
	if want := []string{"eight", "five", "four", "nine", "one", "seven", "six", "ten", "three", "two"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestNoPasswordOfADatabaseIsShown, anywhere in its URL; all are known as credentials.
func TestNoPasswordOfADatabaseIsShown(t *testing.T) {
	t.Parallel()
	d := config.Database("postgres://user:first-secret@db.example/bardo?password=second-secret&sslpassword=third-secret&sslmode=require")
	if got := d.String(); strings.Contains(got, "secret") || !strings.Contains(got, "sslmode=require") {
		t.Errorf("it prints as %s", got)
	}
	for name, cfg := range map[string]*config.Config{
		"the ledger": {Store: config.Store{Ledger: d}}, "vectors": {Store: config.Store{Vectors: config.Vectors(d)}},
	} {
		var got []string
		for _, s := range cfg.Secrets() {
			if s.IsSet() {
				got = append(got, s.Reveal())
			}
		}
		if want := []string{"first-secret", "second-secret", "third-secret"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
