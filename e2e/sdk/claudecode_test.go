package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// claude runs Claude Code in print mode and returns what it says.
func claude(t *testing.T, g *gateway.Gateway, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args = append(args, "--output-format", "json")
	cmd := exec.CommandContext(ctx, tool(t, "CLAUDE_BIN", ".tools/npm/node_modules/@anthropic-ai/claude-code-*/claude"), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ANTHROPIC_BASE_URL=" + g.URL, "ANTHROPIC_API_KEY=" + g.Key,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_MAX_RETRIES=0",
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var r struct {
		Result  string `json:"result"`
		IsError bool   `json:"is_error"`
	}
	if jerr := json.Unmarshal(out.Bytes(), &r); err != nil || jerr != nil || r.IsError {
		t.Fatalf("claude %v: %v %v\n%s\n%s", args, err, jerr, out.String(), errs.String())
	}
	return r.Result
}

func TestClaudeCode(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: settings}
	fakes := map[string]*fake.Server{}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		model := family(d) + "-chat"
		fakes[model] = fake.Start(t, fake.Config{Dialect: d})
		o.Providers = append(o.Providers, gateway.Provider{
			ID: "p-" + model, Fake: fakes[model], Format: string(d), Models: []gateway.Model{{ID: model, Price: "{input: 1, output: 2}"}},
		})
	}
	g := gateway.Run(t, o)
	for _, model := range []string{"claude-chat", "gpt-chat"} {
		t.Run("says hi over "+model, func(t *testing.T) {
			if said := claude(t, g, "--model", model, "-p", "say hi"); said != "Hello from the fake provider." {
				t.Errorf("it said %q", said)
			}
		})
		t.Run("uses a tool over "+model, func(t *testing.T) {
			f := fakes[model]
			f.Forget()
			f.Queue(fake.Behaviour{ToolCalls: []fake.ToolCall{{Name: "Bash", Args: `{"command":"echo from-the-tool","description":"Echo"}`, Pieces: 5}}})
			if said := claude(t, g, "--model", model, "--allowedTools", "Bash(echo:*)", "-p", "run echo"); said != "Hello from the fake provider." {
				t.Errorf("it said %q", said)
			}
			last, ok := f.Last()
			if !ok || !strings.Contains(string(last.Body), "from-the-tool") || !bytes.Contains(last.Body, []byte("tool_")) {
				t.Errorf("the tool's result did not reach the provider: %.2000s", last.Body)
			}
		})
	}
	g.AssertSound(t)
}
