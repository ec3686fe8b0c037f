package promptlog

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/internal/secret"
)

// TestF05WhereThePromptLogIsKept: nowhere, in a file, at a receiver if keys are named, or both.
func TestF05WhereThePromptLogIsKept(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for about, row := range map[string]struct {
		p    config.Prompts
		want int
	}{
		"nothing":                  {config.Prompts{}, 0},
		"a receiver without keys":  {config.Prompts{OTLP: config.URL{Scheme: "https", Host: "x"}}, 0},
		"a receiver":               {config.Prompts{OTLP: config.URL{Scheme: "https", Host: "x"}, Keys: []string{"k"}}, 1},
		"a file":                   {config.Prompts{File: "a.db", Secret: secret.New("s"), MaxAge: time.Hour}, 1},
		"a file, by its full name": {config.Prompts{File: filepath.Join(home, "b.db"), Secret: secret.New("s"), MaxAge: time.Hour}, 1},
		"both":                     {config.Prompts{File: "c.db", Secret: secret.New("s"), MaxAge: time.Hour, OTLP: config.URL{Scheme: "https", Host: "x"}, Keys: []string{"k"}}, 2},
	} {
		cfg := &config.Config{}
		cfg.Telemetry.Prompts = row.p
		sinks, err := Open(t.Context(), cfg, &Options{Home: home, Count: func(string, int) {}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil || len(sinks) != row.want {
			t.Errorf("%s: %d, %v", about, len(sinks), err)
		}
		for _, s := range sinks {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range []string{"a.db", "b.db", "c.db"} {
		if _, err := os.Stat(filepath.Join(home, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestF05TheCommandReadsTheFile with the configuration's key only. It is not parallel, since it sets the environment.
func TestF05TheCommandReadsTheFile(t *testing.T) {
	home := t.TempDir()
	t.Setenv("BARDO_HOME", home)
	const key = "a key of more than thirty-two characters"
	run := func(key string, args ...string) (string, error) {
		file := filepath.Join(home, "config.yaml")
		if err := os.WriteFile(file, []byte("telemetry: {prompts: {file: prompts.db, encryption_key: "+key+"}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c := Command()
		c.SetArgs(append([]string{"-c", file}, args...))
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage = true
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := run(key); err != nil || out != "" {
		t.Errorf("before there is a file: %q, %v", out, err)
	}
	f, err := prompts.OpenFile(t.Context(), prompts.FileOptions{Path: filepath.Join(home, "prompts.db"), Secret: key, MaxAge: time.Hour, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	now := time.Now()
	if err := f.Write(t.Context(), []*prompts.Entry{{At: now.Add(-time.Hour), RequestID: "req_1", Account: "k1"}, {At: now, RequestID: "req_2", Account: "k2"}, {At: now, RequestID: "req_3", Account: "k2"}}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		want string
	}{{nil, "123"}, {[]string{"--since", "10m"}, "23"}, {[]string{"--key", "k1"}, "1"}, {[]string{"--request", "req_3"}, "3"}, {[]string{"--key", "k1", "--request", "req_3"}, ""}} {
		out, err := run(key, row.args...)
		got := ""
		for line := range strings.Lines(out) {
			_, rest, _ := strings.Cut(line, `"request_id":"req_`)
			got += rest[:1]
		}
		if err != nil || got != row.want {
			t.Errorf("%v: %q, %v", row.args, got, err)
		}
	}
	if out, err := run("another key of more than thirty-two characters"); err == nil || !strings.Contains(err.Error(), "encryption_key") || strings.Contains(out, "req_") {
		t.Errorf("with another key: %q, %v", out, err)
	}
}
