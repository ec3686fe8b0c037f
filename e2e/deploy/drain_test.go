package deploy

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestADrainThatCannotBeDoneSaysSo: with a socket that is elsewhere, and without the program that it needs.
func TestADrainThatCannotBeDoneSaysSo(t *testing.T) {
	script := filepath.Join("..", "..", "docs", "deploy", "bardo-drain")
	for _, row := range []struct {
		about, path, want string
		code              int
	}{
		{"no socket", "/usr/local/bin:/usr/bin:/bin", "is no socket: Envoy has exited, or its admin interface is elsewhere", 0},
		{"no curl", t.TempDir(), "curl is not installed: nothing was drained", 1},
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", script, filepath.Join(t.TempDir(), "admin.sock"), "1")
		cmd.Env = []string{"PATH=" + row.path}
		out, err := cmd.CombinedOutput()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != row.code || !strings.Contains(string(out), row.want) {
			t.Errorf("%s: exit %d: %s", row.about, code, out)
		}
	}
}
