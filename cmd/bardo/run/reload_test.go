package run

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/settings"
)

// TestConfigurationFilesAreCompared: an empty, changed or replaced file differs from the one that was read.
func TestConfigurationFilesAreCompared(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	g := &gateway{
		reporting:     reporting{log: slog.New(slog.NewTextHandler(&log, nil))},
		configuration: configuration{configPath: filepath.Join(dir, "bardo.yaml"), readFile: settings.Read},
	}
	if err := os.WriteFile(g.configPath, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if read, err := g.reload(t.Context(), io.Discard); err == nil || !settings.SameFile(read, settings.Info(g.configPath)) || !strings.Contains(log.String(), "the file is empty") {
		t.Errorf("an empty file: read %v, %v, log %q", read, err, log.String())
	}
	read := settings.Info(g.configPath)
	if err := os.WriteFile(g.configPath, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if settings.SameFile(read, settings.Info(g.configPath)) {
		t.Error("a file that was written to is the same")
	}
	replaced := settings.Info(g.configPath)
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
	if settings.SameFile(replaced, settings.Info(g.configPath)) {
		t.Error("a file that was replaced is the same")
	}
}

// TestAReloadOfAChangingFileIsRepeated: nothing is put in force, and the next poll reads the file again.
func TestAReloadOfAChangingFileIsRepeated(t *testing.T) {
	var log strings.Builder
	g := &gateway{
		reporting:     reporting{log: slog.New(slog.NewTextHandler(&log, nil))},
		configuration: configuration{configPath: filepath.Join(t.TempDir(), "bardo.yaml")},
	}
	if err := os.WriteFile(g.configPath, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.readFile = func(p string) ([]byte, error) {
		data, err := os.ReadFile(p)
		return data, errors.Join(err, os.WriteFile(p, []byte("limits: {rpm: 1}"), 0o600))
	}
	read, err := g.reload(t.Context(), io.Discard)
	if read != nil || !errors.Is(err, settings.ErrChanging) || log.Len() > 0 {
		t.Errorf("read %v, %v, log %q", read, err, log.String())
	}
}
