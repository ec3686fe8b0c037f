package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModelsThatNoProviderServesAreWarnedOf: with the nearest name, or with the provider that would serve them; those that are served are not.
func TestModelsThatNoProviderServesAreWarnedOf(t *testing.T) {
	t.Setenv("BARDO_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "bardo.yaml")
	const text = `
providers: {custom: [{id: mine, format: openai, endpoints: ["http://127.0.0.1:1/v1"], models: [{id: small-model}, {id: large-model}]}]}
inference: {tiers: {T1: {provider: mine/smal-model}, T2: {provider: large-model}}}
limits: {ladder: {main: [large-model, claude-opus-4-5, mine/small-model]}}
pipeline: {semantic_only: {models: [auto, smal-model]}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := root()
	var out, stderr strings.Builder
	c.SetOut(&out)
	c.SetErr(&stderr)
	c.SetArgs([]string{"config", "check", "-c", file})
	if err := c.ExecuteContext(t.Context()); err != nil || !strings.HasSuffix(out.String(), ": ok\n") {
		t.Fatalf("%v: %s%s", err, &out, &stderr)
	}
	var lines []string
	for line := range strings.Lines(stderr.String()) {
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), file+": "))
	}
	want := []string{
		`inference.tiers.T1.provider: warning: the model "smal-model" does not exist at mine; did you mean small-model?`,
		`limits.ladder.main[1]: warning: the model "claude-opus-4-5" `,
		`pipeline.semantic_only.models[1]: warning: the model "smal-model" does not exist; did you mean small-model?`,
	}
	if len(lines) != len(want) {
		t.Fatalf("it says\n%s", stderr.String())
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("it says\n%s\nwant\n%s", lines[i], want[i])
		}
	}
}
