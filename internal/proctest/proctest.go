// Package proctest helps tests that start programs: their output, short directories for sockets, and the module's directory. Only tests and the
// programs below e2e import it.
package proctest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Output collects the output of one goroutine or process while another reads it. The zero value is empty. Safe for concurrent use.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends; it never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String returns everything written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Program writes an executable file, and creates its directory. A child process writes it: if this process had the file open for writing, a process
// that another test forks at that moment would hold it open too, and starting the file would fail with "text file busy".
func Program(t testing.TB, path string, content []byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `mkdir -p "$(dirname "$0")" && cat >"$0" && chmod 755 "$0"`, path)
	cmd.Stdin = bytes.NewReader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Dir returns a private directory, removed when the test ends. Its path is shorter than that of t.TempDir, because the address of a Unix socket holds
// about 100 bytes.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bardo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Root returns the directory of the module that contains the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}
