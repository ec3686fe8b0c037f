package main

import (
	"errors"
	"io"
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
	g := &gateway{configPath: filepath.Join(dir, "bardo.yaml"), readFile: readConfig, log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := os.WriteFile(g.configPath, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if read, err := g.reload(t.Context(), io.Discard); err == nil || !sameFile(read, fileInfo(g.configPath)) || !strings.Contains(log.String(), "the file is empty") {
		t.Errorf("an empty file: read %v, %v, log %q", read, err, log.String())
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

// TestAFileThatChangesWhileItIsReadIsNotUsed: what was read may be its beginning alone, which is a configuration too.
func TestAFileThatChangesWhileItIsReadIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bardo.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(){
		"written to": func() { write("telemetry: {log_level: info}\nlimits: {rpm: 5}\n") },
		"replaced": func() {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write("limits: {rpm: 7}\n")
		},
		"removed": func() {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		write("telemetry: {log_level: info}\n")
		_, err := readConfigFile(path, func(p string) ([]byte, error) {
			data, err := os.ReadFile(p)
			change()
			return data, err
		})
		if !errors.Is(err, errChanging) {
			t.Errorf("%s while it was read: %v", name, err)
		}
	}
	write("limits: {rpm: 9}\n")
	f, err := readConfigFile(path, os.ReadFile)
	if err != nil || string(f.data) != "limits: {rpm: 9}\n" || !sameFile(f.info, fileInfo(path)) {
		t.Errorf("a file at rest: %q, %v", f.data, err)
	}
}

// A reload that meets a file while it changes puts nothing in force, and reads it again at the next look.
func TestAReloadOfAChangingFileIsRepeated(t *testing.T) {
	var log strings.Builder
	g := &gateway{configPath: filepath.Join(t.TempDir(), "bardo.yaml"), log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := os.WriteFile(g.configPath, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.readFile = func(p string) ([]byte, error) {
		data, err := os.ReadFile(p)
		return data, errors.Join(err, os.WriteFile(p, []byte("limits: {rpm: 1}"), 0o600))
	}
	read, err := g.reload(t.Context(), io.Discard)
	if read != nil || !errors.Is(err, errChanging) || log.Len() > 0 {
		t.Errorf("read %v, %v, log %q", read, err, log.String())
	}
}
