package prompts_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/internal/sqlite"
)

const secret = "a secret of more than thirty-two characters"

func openFile(t *testing.T, o prompts.FileOptions) *prompts.File {
	t.Helper()
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	if o.MaxAge == 0 {
		o.MaxAge = time.Hour
	}
	o.Secret = secret
	f, err := prompts.OpenFile(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func said(id string, at time.Time, text string) *prompts.Entry {
	return &prompts.Entry{At: at, RequestID: id, Account: "key-of-prompts", Request: []prompts.Text{{Kind: "user", Text: text}}, Answer: []prompts.Text{{Kind: "assistant", Text: "yes"}}}
}

func write(t *testing.T, f *prompts.File, all ...*prompts.Entry) {
	t.Helper()
	if err := f.Write(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path, secret string, since time.Time) (ids string, err error) {
	t.Helper()
	err = prompts.Read(t.Context(), path, secret, since, func(e *prompts.Entry) error {
		ids += e.RequestID
		return nil
	})
	return ids, err
}

// TestF05TheFileOfPromptsIsEncrypted: it contains no plain text, only its user can open it, and only with the key; a row's time cannot be changed.
func TestF05TheFileOfPromptsIsEncrypted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prompts.db")
	f := openFile(t, prompts.FileOptions{Path: path})
	now := time.Now()
	write(t, f, said("a", now.Add(-time.Minute), "a planted word"), said("b", now, "another"))
	if ids, err := read(t, path, secret, time.Time{}); err != nil || ids != "ab" {
		t.Errorf("%q, %v", ids, err)
	}
	if ids, err := read(t, path, secret, now.Add(-time.Second)); err != nil || ids != "b" {
		t.Errorf("since a time: %q, %v", ids, err)
	}
	for _, wrong := range []string{"another secret of more than thirty-two", ""} {
		if ids, err := read(t, path, wrong, time.Time{}); !errors.Is(err, seal.ErrKey) || ids != "" {
			t.Errorf("another key: %q, %v", ids, err)
		}
	}
	db, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	change(t, db, `UPDATE prompt SET at = at + 1 WHERE seq = 1`)
	if _, err := read(t, path, secret, time.Time{}); !errors.Is(err, seal.ErrKey) {
		t.Errorf("a row with another time: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil || strings.Contains(string(b), "planted") || strings.Contains(string(b), "key-of-prompts") {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func change(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), query); err != nil {
		t.Fatal(err)
	}
}

// TestF05PromptsAreKeptForATime: older ones are deleted, even after the gateway was stopped.
func TestF05PromptsAreKeptForATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prompts.db")
	f := openFile(t, prompts.FileOptions{Path: path, MaxAge: time.Hour})
	now := time.Now()
	write(t, f, said("a", now.Add(-2*time.Hour), "old"), said("b", now.Add(-59*time.Minute), "young"))
	if err := f.Tidy(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if ids, err := read(t, path, secret, time.Time{}); err != nil || ids != "b" {
		t.Errorf("%q, %v", ids, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = openFile(t, prompts.FileOptions{Path: path, MaxAge: time.Hour})
	if err := f.Tidy(t.Context(), now.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if ids, err := read(t, path, secret, time.Time{}); err != nil || ids != "" {
		t.Errorf("%q, %v", ids, err)
	}
}

// TestF05PromptsHaveASize: beyond it the oldest are deleted, also after the size was reduced.
func TestF05PromptsHaveASize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prompts.db")
	o := prompts.FileOptions{Path: path, MaxBytes: 100_000}
	f := openFile(t, o)
	text := strings.Repeat("x", 9_000)
	var all strings.Builder
	for _, id := range "abcdefghijklmnopqrstuvwxyz" {
		write(t, f, said(string(id), time.Now(), text))
		all.WriteRune(id)
	}
	ids, err := read(t, path, secret, time.Time{})
	if n := len(ids); err != nil || n < 9 || n > 10 || !strings.HasSuffix(all.String(), ids) {
		t.Errorf("%q, %v", ids, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	o.MaxBytes = 20_000
	f = openFile(t, o)
	if err := f.Tidy(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if ids, err := read(t, path, secret, time.Time{}); err != nil || ids != "yz" {
		t.Errorf("%q, %v", ids, err)
	}
}

// TestAFileOfPromptsNeedsAKey, and a directory.
func TestAFileOfPromptsNeedsAKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prompts.db")
	if _, err := prompts.OpenFile(t.Context(), prompts.FileOptions{Path: path}); err == nil {
		t.Error("it is opened without one")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("it was created")
	}
	if _, err := prompts.OpenFile(t.Context(), prompts.FileOptions{Path: path + "/x", Secret: secret}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if err := prompts.Read(t.Context(), path, secret, time.Time{}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
