package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
)

// TestAGatewayWithoutModelsStartsAndSaysSo: what needs a model is off, with the reason, and requests are served.
func TestAGatewayWithoutModelsStartsAndSaysSo(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{Config: quick + "models: {dir: " + t.TempDir() + ", load: start}\n"})
	status, body := bodyOf(t, g.Admin+"/readyz?verbose")
	for _, want := range []string{
		`{"name":"model for embedding","ok":true,"detail":"all-minilm-l6-v2 is not installed: what needs it is off"}`,
		`{"name":"model for injection","ok":true,"detail":"stackone-defender-v5 is not installed: what needs it is off"}`,
	} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
	if got := g.Chat(t, `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestABrokenModelDoesNotKeepTheGatewayFromStarting: its file has another content than it must have, and one that the configuration names is missing.
func TestABrokenModelDoesNotKeepTheGatewayFromStarting(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{Config: quick + "models: {dir: " + modeltest.Dir(t) + ", runtime: " + filepath.Join(modeltest.Dir(t), "installed.txt") + ", injection: deberta-v3-base-prompt-injection-v2, load: start}\n"})
	eventually(t, "the broken runtime", func() bool {
		_, body := bodyOf(t, g.Admin+"/readyz?verbose")
		return strings.Contains(body, `{"name":"model for embedding","ok":false,"detail":"all-minilm-l6-v2 cannot be used: what needs it is off, and bardo doctor says more"}`) &&
			strings.Contains(body, `{"name":"model for injection","ok":false,"detail":"deberta-v3-base-prompt-injection-v2 is not installed: what needs it is off"}`)
	})
	if !strings.Contains(g.Log(), "installed.txt") || !strings.Contains(g.Log(), "deberta-v3-base-prompt-injection-v2.onnx") {
		t.Errorf("the log does not say why: %s", g.Log())
	}
	if got := g.Chat(t, `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestAGatewayReadsItsModels: those that make models installed are found, and read at the start if the configuration says so.
func TestAGatewayReadsItsModels(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{Config: quick + "models: {dir: " + modeltest.Dir(t) + ", load: start}\n"})
	eventually(t, "the models in memory", func() bool {
		status, body := bodyOf(t, g.Admin+"/readyz?verbose")
		return status == http.StatusOK && strings.Contains(body, `{"name":"model for embedding","ok":true,"detail":"all-minilm-l6-v2 is in memory"}`) &&
			strings.Contains(body, `{"name":"model for injection","ok":true,"detail":"stackone-defender-v5 is in memory"}`)
	})
	if r := g.Try(t, "doctor"); !strings.Contains(r.Stdout, "models.embedding") || strings.Contains(r.Stdout, "FAIL  models") {
		t.Error(r.Stdout)
	}
	if out := g.Bardo(t, "models", "local"); strings.Count(out, " installed ") != 2 {
		t.Error(out)
	}
}
