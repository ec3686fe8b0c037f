// Package sdk runs the clients that people really use against the gateway, in front of fake providers.
package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

func TestMain(m *testing.M) { os.Exit(gateway.Main(m)) }

// behaviours are what the models of both providers do; a model's id is its provider's prefix and one of these names.
var behaviours = map[string]fake.Behaviour{
	"chat": {},
	"tools": {Text: "Let me see.", ToolCalls: []fake.ToolCall{
		{Name: "get_weather", Args: `{"city":"Paris"}`, Pieces: 4}, {Name: "get_weather", Args: `{"city":"Rome"}`},
	}},
	"thinks": {Thoughts: []fake.Thought{{Text: "let me think"}}},
	"400":    {Status: 400, Message: "this is your mistake"},
	"429":    {Status: 429, RetryAfter: "2"},
	"500":    {Status: 500},
	"503":    {Status: 503},
	"dies":   {Tokens: 9, Gap: 50 * time.Millisecond, Break: fake.Break{Kind: fake.Reset, At: fake.AfterTokens, Tokens: 3}},
	"hangs":  {Tokens: 9, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 3}},
}

// start runs a gateway before providers of both dialects. Every model has a provider of its own, so that those that fail
// spoil no other's health. The ones that die in the middle have a second provider: such a stream ends in an error event,
// where one without another candidate is cut off as by the provider itself.
func start(t *testing.T) (*gateway.Gateway, map[string]*fake.Server) {
	t.Helper()
	o := gateway.Options{Config: "limits: {rpm: 0}\n"}
	fakes := map[string]*fake.Server{}
	for prefix, d := range map[string]fake.Dialect{"gpt": fake.OpenAI, "claude": fake.Anthropic} {
		for name, b := range behaviours {
			model := prefix + "-" + name
			fakes[model] = add(t, &o, "p-"+model, model, d, b)
			if name == "dies" {
				add(t, &o, "q-"+model, model, d, fake.Behaviour{})
			}
		}
	}
	return gateway.Run(t, o), fakes
}

func add(t *testing.T, o *gateway.Options, id, model string, d fake.Dialect, b fake.Behaviour) *fake.Server {
	t.Helper()
	f := fake.Start(t, fake.Config{Dialect: d, Name: id})
	f.Behave(b)
	o.Providers = append(o.Providers, gateway.Provider{
		ID: id, Fake: f, Format: string(d), Models: []gateway.Model{{ID: model, Price: "{input: 1, output: 2}"}},
	})
	return f
}

func tool(t *testing.T, variable, pattern string) string {
	t.Helper()
	if bin := os.Getenv(variable); bin != "" {
		return bin
	}
	root, err := gateway.Root()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s is not installed; e2e/sdk/README.md says how, $%s names another", pattern, variable)
	}
	return found[0]
}

func python(t *testing.T, g *gateway.Gateway, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(t, "SDK_PYTHON", ".tools/py/bin/python"), script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BARDO_URL=" + g.URL, "BARDO_KEY=" + g.Key}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
}

func TestPythonSDKs(t *testing.T) {
	t.Parallel()
	g, fakes := start(t)
	for script, hangs := range map[string]string{"openai_sdk.py": "gpt-hangs", "anthropic_sdk.py": "claude-hangs"} {
		t.Run(script, func(t *testing.T) {
			python(t, g, script)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := fakes[hangs].WaitCancelled(ctx, 1); err != nil {
				t.Errorf("K-34: the provider was not told that the client left: %v", err)
			}
		})
	}
	g.AssertSound(t)
}

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
	g, fakes := start(t)
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
