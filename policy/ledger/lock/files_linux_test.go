package lock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// files is the number of this process's open files.
func files(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestNoFileStaysOpen of a lock that another process has, or that was closed: a gateway tries locks all the time.
func TestNoFileStaysOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	one, other := &File{Path: path}, &File{Path: path}
	wantTry(t, one, true)
	if err := os.Mkdir(filepath.Join(dir, "half.write.lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := files(t)
	for range 100 {
		wantTry(t, other, false)
		wantTaken(t, path, true, true)
		if _, err := OpenTurn(filepath.Join(dir, "half")); err == nil {
			t.Error("a folder was opened")
		}
		turn, err := OpenTurn(path)
		if err := errors.Join(err, turn.Close()); err != nil {
			t.Error(err)
		}
	}
	if more := files(t) - before; more > 50 {
		t.Errorf("%d more files are open", more)
	}
	if err := one.Release(); err != nil {
		t.Error(err)
	}
}
