package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestALockedProfileInAFileIsWarnedOf, and an unknown schema: the file is valid, but these parts have no effect.
func TestALockedProfileInAFileIsWarnedOf(t *testing.T) {
	t.Setenv("BARDO_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "bardo.yaml")
	const text = "inference:\n  profiles:\n    risk: {temperature: 1.0}\n    dream_rem: {temperature: 1.0, min_p: 0.08, response_schema: FragmentEvaluation}\n    curator: {response_schema: CuratorEvaluatoin}\n"
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
	want := file + ": inference.profiles.risk: warning: this profile is locked; what is said about it is ignored\n" +
		file + ": inference.profiles.curator.response_schema: warning: no schema \"CuratorEvaluatoin\" is published, the nearest is CuratorEvaluation; it is ignored\n"
	if stderr.String() != want {
		t.Errorf("it says %q, want %q", stderr.String(), want)
	}
}
