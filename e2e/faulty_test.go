package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// faultyModule builds the libbardo.so of testdata/faulty, of the program's own version, without symbols: they take half of the linker's time.
func faultyModule(t *testing.T) (library string) {
	t.Helper()
	bardo, _ := gateway.Programs(t)
	out, err := exec.CommandContext(t.Context(), bardo, "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Version string }
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	library = filepath.Join(t.TempDir(), "libbardo.so")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags", "-s -w -X bardo.money/gateway/cmd/bardo/cli.Version="+v.Version, "-o", library, "./testdata/faulty")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return library
}

// TestAPanicInEnvoysProcessEndsOneRequest with a 500 in its caller's format, wherever it comes, and Envoy lives; one beside requests ends none.
func TestAPanicInEnvoysProcessEndsOneRequest(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		DataPath: "module", Config: quick, Env: []string{"BARDO_MODULE=" + faultyModule(t)},
		Providers: []gateway.Provider{
			{ID: "p", Fake: p, Models: append(models("m", ""), models("panics", "")...)},
			{ID: "panics", Fake: p, Models: models("other", "")}, // when it is pinged
		},
	})
	eventually(t, "the panic of a health check", func() bool { return g.Metrics(t).Sum("bardo_task_panics_total", `process="envoy"`) > 0 })
	child, panics := envoyOf(t, g), 0
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		for _, stream := range []bool{false, true} {
			for _, a := range []ask{
				{dialect: d, model: "m", stream: stream, say: "panic while reading"},
				{dialect: d, model: "panics", stream: stream},
			} {
				t.Run(fmt.Sprintf("%s/%s %s/stream=%v", d, a.model, a.say, stream), func(t *testing.T) {
					panics++
					mustFail(t, a, g.Do(t, a.call()), http.StatusInternalServerError, "internal")
					good := ask{dialect: d, model: "m", stream: stream}
					text(t, good, g.Do(t, good.call()))
				})
			}
		}
	}
	if n := g.Metrics(t).Sum("bardo_panics_total"); int(n) != panics {
		t.Errorf("%v panics are counted, want %d", n, panics)
	}
	if now := envoyOf(t, g); now != child {
		t.Errorf("Envoy was process %d, and is %d", child, now)
	}
	if n := len(p.Generations()); n != panics {
		t.Errorf("the provider was asked %d times, want %d", n, panics)
	}
	g.AssertSound(t)
}
