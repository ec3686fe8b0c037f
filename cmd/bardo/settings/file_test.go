package settings

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAFileSettles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bardo.yaml")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	info := Info(path)
	for _, row := range []struct {
		age  time.Duration
		want bool
	}{{0, false}, {SettleTime - 1, false}, {SettleTime, true}, {time.Hour, true}, {-time.Hour, true}} {
		if got := Settled(info, info.ModTime().Add(row.age)); got != row.want {
			t.Errorf("%s after it was written: %v", row.age, got)
		}
	}
	if !Settled(nil, time.Now()) {
		t.Error("a file that is not there is waited for")
	}
}

// TestAFileThatChangesWhileItIsReadIsNotUsed: what was read may be a prefix, which can be a valid configuration too.
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
		_, err := ReadFile(path, func(p string) ([]byte, error) {
			data, err := os.ReadFile(p)
			change()
			return data, err
		})
		if !errors.Is(err, ErrChanging) {
			t.Errorf("%s while it was read: %v", name, err)
		}
	}
	write("limits: {rpm: 9}\n")
	f, err := ReadFile(path, os.ReadFile)
	if err != nil || string(f.Data) != "limits: {rpm: 9}\n" || !SameFile(f.Info, Info(path)) {
		t.Errorf("a file at rest: %q, %v", f.Data, err)
	}
}
