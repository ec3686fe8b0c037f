package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestPitfall26KeysAreInNoLog: neither those that are served nor those that are refused are in the log, at its finest level, in the events, in an answer, or in the files of the state.
func TestPitfall26KeysAreInNoLog(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + "telemetry: {log_level: debug, events: stdout}\n", Providers: []gateway.Provider{{ID: "openai", Fake: p}}})
	revoked := g.CreateKey(t, "--name", "revoked")
	g.Bardo(t, "keys", "revoke", revoked.ID)
	parts := strings.Split(g.Key, "_") // bardo, sk, id, secret, checksum
	wrong := strings.Join([]string{parts[0], parts[1], parts[2], strings.Repeat("Z", len(parts[3])), parts[4]}, "_")
	body := `{"model":"gpt-x","messages":[{"role":"user","content":"hi"}]}`
	var answers strings.Builder
	for key, want := range map[string]int{g.Key: http.StatusOK, revoked.Key: http.StatusUnauthorized, wrong: http.StatusUnauthorized} {
		for _, header := range []string{"Authorization: Bearer " + key, "x-api-key: " + key} {
			got := g.Do(t, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: body, Header: []string{header}})
			if got.Status != want {
				t.Errorf("%d %s, want %d", got.Status, got.Body, want)
			}
			answers.WriteString(got.Body)
		}
	}
	secrets := []string{parts[3], strings.Split(revoked.Key, "_")[3], strings.Repeat("Z", len(parts[3]))}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets {
		if strings.Contains(g.Log(), s) || strings.Contains(answers.String(), s) {
			t.Error("a key's secret is in the log, or in an answer")
		}
		if file := holding(t, g.Home, s); file != "" {
			t.Errorf("a key's secret is in %s", file)
		}
	}
}

// holding is a file below a folder that has a text in it; "" for none.
func holding(t *testing.T, dir, text string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			found = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
