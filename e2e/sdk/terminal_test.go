package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// terminal is an agent that works in a terminal, in print mode.
type terminal struct {
	name  string
	title string // in docs/clients.md
	over  []format
	slow  bool // to start: unless in a whole run, it is refused over the first format alone, since the drivers of its SDK are refused over others
	argv  func(t *testing.T, model string) []string
	home  func(t *testing.T, home string, g *gateway.Gateway) (env []string) // writes its settings

	read    func(out []byte) (string, error)   // what the agent says at its end
	shell   func(command string) fake.ToolCall // by the agent's own tool
	version func(t *testing.T) string
}

// format is of a provider, by its title in the table.
type format struct {
	name, title string
	dialect     fake.Dialect
	more        string // keys of the provider
}

var (
	overResponses = format{"responses", "OpenAI's Responses", fake.OpenAI, "responses: true"}
	overChat      = format{"openai", "OpenAI's Chat Completions", fake.OpenAI, ""}
	overAnthropic = format{"anthropic", "Anthropic's", fake.Anthropic, ""}
	overGemini    = format{"gemini", "Gemini's", fake.Gemini, ""}
)

const (
	codexBin  = ".tools/npm/node_modules/@openai/codex-*/vendor/*/bin/codex"
	geminiCLI = "@google/gemini-cli/bundle/gemini.js"
)

var terminals = []terminal{
	{
		name: "codex", title: "Codex CLI", over: []format{overResponses, overChat, overAnthropic, overGemini},
		argv: func(t *testing.T, model string) []string {
			t.Helper()
			return []string{
				tool(t, "CODEX_BIN", codexBin), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "-m", model,
				"do it",
			}
		},
		home: func(t *testing.T, home string, g *gateway.Gateway) []string {
			t.Helper()
			put(t, home, ".codex/config.toml", strings.ReplaceAll(documented(t, "[model_providers.bardo]"), "http://127.0.0.1:8080", g.URL))
			return []string{"OPENAI_API_KEY=" + g.Key}
		},
		read: readCodex,
		shell: func(command string) fake.ToolCall {
			return fake.ToolCall{Name: "exec_command", Args: fmt.Sprintf(`{"cmd":%q,"login":false}`, command)}
		},
		version: func(t *testing.T) string {
			t.Helper()
			return strings.TrimPrefix(printed(t, tool(t, "CODEX_BIN", codexBin), "--version"), "codex-cli ")
		},
	},
	{
		name: "gemini-cli", title: "gemini-cli", over: []format{overGemini, overChat, overAnthropic}, slow: true,
		argv: func(t *testing.T, model string) []string {
			t.Helper()
			return append(geminiArgs(t), "-m", model, "-o", "json", "--skip-trust", "--approval-mode", "yolo", "-p", "do it")
		},
		home: func(t *testing.T, home string, g *gateway.Gateway) []string {
			t.Helper()
			put(t, home, ".gemini/settings.json", documented(t, `"selectedType"`))
			return []string{"GEMINI_API_KEY=" + g.Key, "GOOGLE_GEMINI_BASE_URL=" + g.URL, "GEMINI_CLI_NO_RELAUNCH=true", compiled(t)} // it would start itself again for more memory
		},
		read: readGeminiCLI,
		shell: func(command string) fake.ToolCall {
			return fake.ToolCall{Name: "run_shell_command", Args: fmt.Sprintf(`{"command":%q,"description":"makes a file"}`, command)}
		},
		version: func(t *testing.T) string {
			t.Helper()
			argv := append(geminiArgs(t), "--version")
			return printed(t, argv[0], argv[1:]...)
		},
	},
}

func geminiArgs(t *testing.T) []string {
	t.Helper()
	return []string{tool(t, "SDK_NODE", ".tools/npm/bin/node"), filepath.Join(tool(t, "SDK_NODE_MODULES", ".tools/npm/node_modules"), geminiCLI)}
}

// documented is the block of docs/clients.md that holds a text.
func documented(t *testing.T, text string) string {
	t.Helper()
	root, err := proctest.Root()
	if err != nil {
		t.Fatal(err)
	}
	document.Lock()
	defer document.Unlock()
	doc, err := os.ReadFile(filepath.Join(root, "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(doc), "```") {
		if _, lines, _ := strings.Cut(block, "\n"); i%2 == 1 && strings.Contains(lines, text) {
			return lines
		}
	}
	t.Fatalf("no block of docs/clients.md holds %q", text)
	return ""
}

// put writes a file below a folder.
func put(t *testing.T, folder, name, text string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// printed is what a program prints, in one line.
func printed(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// readCodex reads the events that Codex prints: what its agent says, or the errors that it shows.
func readCodex(out []byte) (said string, err error) {
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var ev struct {
			Type, Message string
			Item          struct{ Type, Text string }
			Error         struct{ Message string }
		}
		if err := d.Decode(&ev); err != nil {
			return said, err
		}
		switch {
		case ev.Type == "item.completed" && ev.Item.Type == "agent_message":
			said = ev.Item.Text
		case ev.Type == "turn.failed", ev.Type == "error":
			said += ev.Message + ev.Error.Message
		}
	}
	return said, nil
}

// readGeminiCLI reads the object that gemini-cli prints, or the error in its place.
func readGeminiCLI(out []byte) (string, error) {
	var a struct {
		Response string
		Error    struct{ Message string }
	}
	err := json.Unmarshal(out, &a)
	return a.Response + a.Error.Message, err
}

// act is what the agents do, and what their provider does meanwhile.
type act struct {
	name, what string
	turns      func(terminal) []fake.Behaviour // before it says hello
	says       string
	fails      bool
	makes      bool   // the file
	within     string // an act that ends with this one: only a whole run plays it by itself
}

var acts = []act{
	{name: "says", what: "a prompt and an answer", says: hello, within: "works"},
	{name: "works", what: "a command that it is told to run, and its output sent back", says: hello, makes: true, turns: func(a terminal) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{a.shell("echo made it | tee made.txt")}}}
	}},
	{name: "refused", what: "a provider that refuses", says: "the window is too small", fails: true, turns: func(terminal) []fake.Behaviour {
		return slices.Repeat([]fake.Behaviour{{Status: 400, Message: "the window is too small"}}, 10)
	}},
}

// TestTerminals: the agents of OpenAI and Google, in print mode, over providers of every format.
func TestTerminals(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: settings}
	fakes := map[string]*fake.Server{}
	for _, a := range terminals {
		for _, f := range a.over {
			for _, act := range acts {
				if !a.plays(f, act) {
					continue
				}
				model := a.model(f, act.name)
				fakes[model] = fake.Start(t, fake.Config{Dialect: f.dialect, Name: model})
				o.Providers = append(o.Providers, gateway.Provider{
					ID: "p-" + model, Fake: fakes[model], Format: string(f.dialect), More: f.more,
					Models: []gateway.Model{{ID: model, Price: "{input: 1, output: 2, per_search: 0.01}"}},
				})
			}
		}
	}
	g := gateway.Run(t, o)
	var mu sync.Mutex
	passed := map[string]bool{}
	t.Run("run", func(t *testing.T) {
		for _, a := range terminals {
			for _, f := range a.over {
				for _, act := range acts {
					model := a.model(f, act.name)
					if fakes[model] == nil {
						continue
					}
					t.Run(model, func(t *testing.T) {
						t.Parallel()
						a.play(t, g, fakes[model], model, act)
						mu.Lock()
						defer mu.Unlock()
						passed[model] = !t.Failed()
					})
				}
			}
		}
	})
	g.AssertSound(t)
	if len(passed) == len(fakes) { // not with -run of some
		checkTable(t, "terminals", terminalsTable(t, passed))
	}
}

// plays reports whether the agent does it over a format in this run of the tests.
func (a terminal) plays(f format, it act) bool {
	return whole() || it.within == "" && (!it.fails || !a.slow || f == a.over[0])
}

// model is one of a family that nobody knows: the agents send to it what they send to all.
func (a terminal) model(f format, act string) string {
	return "of-" + a.name + "-" + act + "-over-" + f.name
}

// play runs the agent once.
func (a terminal) play(t *testing.T, g *gateway.Gateway, f *fake.Server, model string, it act) {
	t.Helper()
	folder, home := t.TempDir(), t.TempDir()
	if it.turns != nil {
		f.Queue(it.turns(a)...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), claudeWithin)
	defer cancel()
	argv := a.argv(t, model)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = folder
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "NO_COLOR=1"}, a.home(t, home, g)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	said, rerr := a.read(out.Bytes())
	if (err != nil) != it.fails || !it.fails && rerr != nil || !strings.Contains(said+errs.String(), it.says) {
		t.Fatalf("it said %q, want %q: %v %v\n%s\n%s", said, it.says, err, rerr, out.String(), errs.String())
	}
	if !it.makes {
		return
	}
	if made, err := os.ReadFile(filepath.Join(folder, "made.txt")); err != nil || string(made) != "made it\n" {
		t.Errorf("the command was not run: %q %v", made, err)
	}
	last, _ := f.Last()
	if !bytes.Contains(last.Body, []byte("made it\\n")) || len(f.Generations()) != 2 {
		t.Errorf("after %d calls, the provider was told %.20000s", len(f.Generations()), last.Body)
	}
}

// terminalsTable has a row for each agent and act; a cell lists how it went over each format. What was not played counts as passed.
func terminalsTable(t *testing.T, passed map[string]bool) string {
	t.Helper()
	columns := []format{overResponses, overChat, overAnthropic, overGemini}
	var b strings.Builder
	b.WriteString("| agent | version | what it does |")
	for _, f := range columns {
		b.WriteString(" over " + f.title + " |")
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, a := range terminals {
		version := a.version(t)
		for _, act := range acts {
			fmt.Fprintf(&b, "| %s | %s | %s |", a.title, version, act.what)
			for _, f := range columns {
				cell := "–"
				if slices.Contains(a.over, f) {
					cell = played(passed, a.model(f, act.name))
				}
				b.WriteString(" " + cell + " |")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
