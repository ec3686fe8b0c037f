package pii_test

import (
	"errors"
	"strings"
	"testing"

	layer "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// TestTextsOfHintsAreSearched: each text of an inference profile that a provider gets.
func TestTextsOfHintsAreSearched(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	for name, with := range map[string]func(text string) policy.Profile{
		"stop":             func(text string) policy.Profile { return policy.Profile{Stop: []string{"END", text}} },
		"predicted output": func(text string) policy.Profile { return policy.Profile{PredictedOutput: text} },
		"cache key":        func(text string) policy.Profile { return policy.Profile{PromptCacheKey: text} },
		"schema's name":    func(text string) policy.Profile { return policy.Profile{SchemaName: text} },
		"schema": func(text string) policy.Profile {
			return policy.Profile{Schema: []byte(`{"anyOf":[{"type":"object","properties":{"a":{"enum":["` + text + `"]}}}]}`)}
		},
		"schema's property": func(text string) policy.Profile {
			return policy.Profile{Schema: []byte(`{"properties":{"` + text + `":{}}}`)}
		},
	} {
		run := func(m layer.Mode, text string) error {
			x := exchange(t, `{"role":"user","content":"hi"}`)
			x.Hints.Profile = new(with(text))
			return run(t, newLayer(m), x)
		}
		for m, refused := range map[layer.Mode]bool{layer.Off: false, layer.Detect: false, layer.Mask: true, layer.Block: true} {
			if err := run(m, "jane@example.com"); (err != nil) != refused {
				t.Errorf("%s, %s: %v", name, m, err)
			}
			if err := run(m, "harmless"); err != nil {
				t.Errorf("%s, %s: %v", name, m, err)
			}
		}
		for _, m := range []layer.Mode{layer.Detect, layer.Mask, layer.Block} {
			var f *fault.Fault
			if err := run(m, "my private key is "+key); !errors.As(err, &f) || f.Kind != fault.SecretInPrompt || strings.Contains(f.Error(), key) {
				t.Errorf("%s, %s: a private key: %v", name, m, err)
			}
		}
	}
}
