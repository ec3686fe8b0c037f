package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/goldentest"
)

var update = flag.Bool("update", false, "write the expected files anew")

// variables is an environment for tests.
func variables(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

var usual = variables("OPENAI_API_KEY=sk-secret-1", "VLLM_KEY=sk-secret-2", "OPENROUTER_API_KEY=sk-secret-3", "BANKR_API_KEY=sk-secret-4", "VENICE_API_KEY=sk-secret-5", "BARDO_WALLET_KEY=sk-secret-6")

func golden(t *testing.T, path, got string) {
	t.Helper()
	goldentest.Compare(t, path, got, *update)
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return found
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func lines(problems []config.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

// Every bad file is refused with the messages in the .want file beside it.
func TestBadFiles(t *testing.T) {
	for _, path := range files(t, "*.bad.*[^t]") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			cfg, problems := config.Parse(filepath.Base(path), read(t, path), variables(), kinds...)
			if cfg != nil {
				t.Error("the file was accepted")
			}
			if !config.Failed(problems) {
				t.Error("no problem is more than a warning")
			}
			golden(t, strings.TrimSuffix(path, filepath.Ext(path))+filepath.Ext(path)+".want", lines(problems))
		})
	}
}

// Every good file is accepted, and its effective configuration is the .print file beside it.
func TestGoodFiles(t *testing.T) {
	for _, path := range append(files(t, "*.good.yaml"), files(t, "*.good.toml")...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			cfg, problems := config.Parse(filepath.Base(path), read(t, path), usual, kinds...)
			if cfg == nil {
				t.Fatal(lines(problems))
			}
			printed := config.Print(cfg)
			golden(t, path+".print", string(printed))
			if strings.Contains(string(printed), "sk-secret") {
				t.Error("a secret was printed")
			}
			again, problems := config.Parse("printed.yaml", printed, variables(), kinds...)
			if again == nil {
				t.Fatalf("what was printed cannot be read: %s", lines(problems))
			}
			if got := string(config.Print(again)); got != string(printed) {
				t.Errorf("printing what was printed differs:\n%s", got)
			}
		})
	}
}

// TestASectionWithoutValuesIsPrinted: its presence may have a meaning.
func TestASectionWithoutValuesIsPrinted(t *testing.T) {
	cfg, problems := config.Parse("a.yaml", []byte("providers: {direct: {}, custom: [{id: a, endpoints: [http://h/v1]}]}"), variables(), kinds...)
	if cfg == nil || cfg.Providers.Direct == nil {
		t.Fatal(lines(problems))
	}
	again, problems := config.Parse("b.yaml", config.Print(cfg), variables(), kinds...)
	if again == nil || again.Providers.Direct == nil {
		t.Errorf("%s\n%s", lines(problems), config.Print(cfg))
	}
}
