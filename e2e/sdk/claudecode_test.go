package sdk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

const hello = "Hello from the fake provider."

// scene is one run of Claude Code in print mode, and what its provider does.
type scene struct {
	name  string                               // of its models
	what  string                               // in docs/clients.md
	turns func(folder string) []fake.Behaviour // before it says hello; the run's working folder is absolute
	args  []string                             // instead of a plain prompt
	env   []string
	over  fake.Dialect // of its provider; of both in a whole run
	twice bool         // a second provider has the model: streams take the path on which the gateway answers itself
	known string       // a model of the catalog, which Anthropic's own provider serves
	says  string       // in the result; "": hello
	fails string       // in the error that is the result
	check func(t *testing.T, s seen)
}

// seen is what is left of a run.
type seen struct {
	served fake.Dialect
	folder string
	out    answer
	asked  []fake.Request // the completions that the provider was asked for
	all    []fake.Request
}

// answer is what Claude Code prints.
type answer struct {
	Result  string `json:"result"`
	IsError bool   `json:"is_error"`
}

// last is the newest completion's request.
func (s seen) last() []byte {
	if len(s.asked) == 0 {
		return nil
	}
	return s.asked[len(s.asked)-1].Body
}

// checkSaid: the newest request says these texts.
func (s seen) checkSaid(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !says(s.last(), text) {
			t.Errorf("the provider was not told %q: %.20000s", text, s.last())
		}
	}
}

// checkTurns: the provider was asked so often, and refused nothing that it was not told to.
func (s seen) checkTurns(t *testing.T, n int) {
	t.Helper()
	if len(s.asked) != n {
		t.Errorf("%d completions, want %d", len(s.asked), n)
	}
	for _, r := range s.asked {
		if r.Status != http.StatusOK && r.Status != http.StatusTooManyRequests {
			t.Errorf("the provider answered %d to %.20000s", r.Status, r.Body)
		}
	}
}

func (c scene) model(d fake.Dialect) string {
	if c.known != "" && d == fake.Anthropic {
		return c.known
	}
	return "claude-" + c.name + "-of-" + string(d) // it sends more to what it takes for Claude
}

func (c scene) provider(prefix string, f *fake.Server, d fake.Dialect) gateway.Provider {
	model := c.model(d)
	if model == c.known {
		return gateway.Provider{ID: "anthropic", Fake: f}
	}
	return gateway.Provider{ID: prefix + model, Fake: f, Format: string(d), Models: []gateway.Model{{ID: model, Price: "{input: 1, output: 2}"}}}
}

// dialects are those that a run of the tests plays the scene over.
func (c scene) dialects() []fake.Dialect {
	if whole() {
		return []fake.Dialect{fake.Anthropic, fake.OpenAI}
	}
	return []fake.Dialect{c.over}
}

func TestClaudeCode(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: settings}
	fakes := map[string]*fake.Server{}
	for _, c := range scenes {
		for _, d := range c.dialects() {
			f := fake.Start(t, fake.Config{Dialect: d, Name: c.model(d)})
			fakes[c.model(d)] = f
			o.Providers = append(o.Providers, c.provider("", f, d))
			if c.twice {
				o.Providers = append(o.Providers, c.provider("q-", fake.Start(t, fake.Config{Dialect: d}), d))
			}
		}
	}
	g := gateway.Run(t, o)
	var mu sync.Mutex
	passed := map[string]bool{}
	t.Run("run", func(t *testing.T) {
		for _, c := range scenes {
			for _, d := range c.dialects() {
				t.Run(c.name+" over "+string(d), func(t *testing.T) {
					t.Parallel()
					c.play(t, g, fakes[c.model(d)], d)
					mu.Lock()
					defer mu.Unlock()
					passed[c.model(d)] = !t.Failed()
				})
			}
		}
	})
	g.AssertSound(t)
	if len(passed) == len(fakes) { // not with -run of some
		checkTable(t, "claude-code", playbill(version(t), passed))
	}
}

// playbill is the table of the scenes. What was not played counts as passed.
func playbill(version string, passed map[string]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| Claude Code %s | over Anthropic's format | over OpenAI's |\n|---|---|---|\n", version)
	for _, c := range scenes {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.what, played(passed, c.model(fake.Anthropic)), played(passed, c.model(fake.OpenAI)))
	}
	return b.String()
}

// played is the cell of a run by its model's name.
func played(passed map[string]bool, model string) string {
	ok, ran := passed[model]
	return mark(ok || !ran)
}

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

const claudeBin = ".tools/npm/node_modules/@anthropic-ai/claude-code-*/claude"

// version is what the program says of itself.
func version(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, "CLAUDE_BIN", claudeBin), "--version")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	number, _, _ := strings.Cut(string(out), " ")
	return number
}

func (c scene) play(t *testing.T, g *gateway.Gateway, f *fake.Server, d fake.Dialect) {
	t.Helper()
	s := seen{served: d, folder: t.TempDir()}
	if c.turns != nil {
		f.Queue(c.turns(s.folder)...)
	}
	args := c.args
	if args == nil {
		args = []string{"--allowedTools", "Bash,Read,Write", "-p", "do it"}
	}
	s.out = claude(t, g, s.folder, c.env, append([]string{"--model", c.model(d)}, args...)...)
	s.asked, s.all = f.Generations(), f.Requests()
	if want := cmp.Or(c.fails, c.says, hello); !strings.Contains(s.out.Result, want) || s.out.IsError != (c.fails != "") {
		t.Errorf("it said %q, want %q", s.out.Result, want)
	}
	if c.check != nil {
		c.check(t, s)
	}
}

const claudeWithin = 2 * time.Minute

// claude runs Claude Code in print mode and returns what it says.
func claude(t *testing.T, g *gateway.Gateway, folder string, env []string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), claudeWithin)
	defer cancel()
	args = append(args, "--output-format", "json")
	cmd := exec.CommandContext(ctx, tool(t, "CLAUDE_BIN", claudeBin), args...)
	cmd.Dir = folder
	cmd.Env = slices.Concat([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ANTHROPIC_BASE_URL=" + g.URL, "ANTHROPIC_API_KEY=" + g.Key,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
	}, env)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var a answer
	if jerr := json.Unmarshal(out.Bytes(), &a); jerr != nil || (err != nil && !a.IsError) {
		t.Fatalf("claude %s: %v %v\n%s\n%s", strings.Join(args, " "), err, jerr, out.String(), errs.String())
	}
	return a
}
