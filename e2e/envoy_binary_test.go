package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// fakeEnvoy makes a program that says the version of an Envoy.
func fakeEnvoy(t *testing.T, path string) string {
	t.Helper()
	proctest.Program(t, path, []byte("#!/bin/sh\necho 'envoy  version: 0/1.40.0/Clean/RELEASE/BoringSSL'\n"))
	return path
}

// TestEnvoyOfTheWorkingDirectoryComesLast: whoever can write there must not choose the program that gets the providers' keys.
func TestEnvoyOfTheWorkingDirectoryComesLast(t *testing.T) {
	t.Parallel()
	bardo, _ := gateway.Programs(t)
	program, err := os.ReadFile(bardo)
	if err != nil {
		t.Fatal(err)
	}
	installed, work, path := t.TempDir(), t.TempDir(), t.TempDir()
	copied := filepath.Join(installed, "bin", "bardo")
	proctest.Program(t, copied, program)
	inWork := fakeEnvoy(t, filepath.Join(work, ".tools", "envoy", "envoy"))
	fakeEnvoy(t, filepath.Join(work, "envoy")) // what an empty or relative PATH would lead to
	found := func(path string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), copied, "doctor", "--json")
		cmd.Dir, cmd.Env = work, []string{"BARDO_HOME=" + t.TempDir(), "PATH=" + path}
		out, status := cmd.Output() // the status is about other checks, too
		var checks []struct{ Check, Detail string }
		if err := json.Unmarshal(out, &checks); err != nil {
			t.Fatalf("%v: %s, %v", err, out, status)
		}
		for _, c := range checks {
			if c.Check == "envoy" {
				at, _, _ := strings.Cut(c.Detail, ",")
				return at
			}
		}
		t.Fatalf("no check of envoy in %s", out)
		return ""
	}
	for _, relative := range []string{"", ".", ":", fmt.Sprintf(":%s:.", path)} {
		if got := found(relative); got != inWork {
			t.Errorf("PATH=%q: it takes %s, want %s", relative, got, inWork)
		}
	}
	onPath := fakeEnvoy(t, filepath.Join(path, "envoy"))
	if got := found(path); got != onPath {
		t.Errorf("it takes %s, want the PATH's %s", got, onPath)
	}
	beside := fakeEnvoy(t, filepath.Join(installed, ".tools", "envoy", "envoy"))
	if got := found(path); got != beside {
		t.Errorf("it takes %s, want the one beside the program, %s", got, beside)
	}
}
