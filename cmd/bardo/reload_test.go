package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAFileSettles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bardo.yaml")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	info := fileInfo(path)
	for _, row := range []struct {
		age  time.Duration
		want bool
	}{{0, false}, {settleTime - 1, false}, {settleTime, true}, {time.Hour, true}, {-time.Hour, true}} {
		if got := settled(info, info.ModTime().Add(row.age)); got != row.want {
			t.Errorf("%s after it was written: %v", row.age, got)
		}
	}
	if !settled(nil, time.Now()) {
		t.Error("a file that is not there is waited for")
	}
}

// What is empty, written to or replaced is told from what was read.
func TestFilesAreTold(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	g := &gateway{configPath: filepath.Join(dir, "bardo.yaml"), log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := os.WriteFile(g.configPath, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if read := g.reload(t.Context()); !sameFile(read, fileInfo(g.configPath)) || !strings.Contains(log.String(), "the file is empty") {
		t.Errorf("an empty file: read %v, log %q", read, log.String())
	}
	read := fileInfo(g.configPath)
	if err := os.WriteFile(g.configPath, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if sameFile(read, fileInfo(g.configPath)) {
		t.Error("a file that was written to is the same")
	}
	replaced := fileInfo(g.configPath)
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, replaced.ModTime(), replaced.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, g.configPath); err != nil {
		t.Fatal(err)
	}
	if sameFile(replaced, fileInfo(g.configPath)) {
		t.Error("a file that was replaced is the same")
	}
}
