package sdk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

const hello = "Hello from the fake provider."

// scene is one run of Claude Code in print mode, and what its provider does.
type scene struct {
	name  string                               // a case in docs/clients.md
	turns func(folder string) []fake.Behaviour // before it says hello; the run's working folder is absolute
	args  []string                             // instead of a plain prompt
	env   []string
	twice bool   // a second provider has the model: streams take the path on which the gateway answers itself
	known string // a model of the catalog, which Anthropic's own provider serves
	says  string // in the result; "": hello
	fails string // in the error that is the result
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
	Turns   int    `json:"num_turns"`
}

// last is the newest completion's request.
func (s seen) last() []byte {
	if len(s.asked) == 0 {
		return nil
	}
	return s.asked[len(s.asked)-1].Body
}

func use(name string, input map[string]string) fake.ToolCall {
	args, _ := json.Marshal(input) // strings always encode
	return fake.ToolCall{Name: name, Args: string(args), Pieces: 7}
}

func shell(command string) fake.ToolCall {
	return use("Bash", map[string]string{"command": command, "description": "Try it"})
}

// note is what it writes; like said, but as a file of text.
const note = "naïve — 日本語 — 🦊👩‍👩‍👧 — עברית — <b>&\"\\"

var thoughts = []fake.Thought{{Text: "first I think"}, {Data: "c2VjcmV0IHRob3VnaHRz"}, {Text: "then I think — again"}}

var scenes = []scene{
	{name: "chat", check: func(t *testing.T, s seen) { t.Helper(); s.checkTurns(t, 1) }},
	{name: "rounds", turns: func(folder string) []fake.Behaviour {
		file := map[string]string{"file_path": filepath.Join(folder, "note.txt")}
		return []fake.Behaviour{
			{Text: "Let me see.", ToolCalls: []fake.ToolCall{use("Write", map[string]string{"file_path": file["file_path"], "content": note})}},
			{ToolCalls: []fake.ToolCall{use("Read", file)}},
			{ToolCalls: []fake.ToolCall{shell("echo from-the-tool")}},
		}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		wrote, err := os.ReadFile(filepath.Join(s.folder, "note.txt"))
		if err != nil || string(wrote) != note {
			t.Errorf("it wrote %q: %v", wrote, err)
		}
		s.checkSaid(t, "Let me see.", note, "from-the-tool")
		s.checkTurns(t, 4)
	}},
	{name: "parallel", turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo first-of-two"), shell("echo second-of-two")}}}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "first-of-two", "second-of-two")
		s.checkTurns(t, 2)
	}},
	{name: "tool-error", turns: func(folder string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{
			shell("echo to-a-failure; exit 3"), use("Read", map[string]string{"file_path": filepath.Join(folder, "absent.txt")}),
		}}}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "to-a-failure", "does not exist")
		if s.served == fake.Anthropic && bytes.Count(s.last(), []byte(`"is_error":true`)) != 2 {
			t.Errorf("K-11: the results are not marked as errors: %s", s.last())
		}
		s.checkTurns(t, 2)
	}},
	{name: "thinks", turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{
			{Thoughts: thoughts[:1], ToolCalls: []fake.ToolCall{shell("echo one")}},
			{Thoughts: thoughts[1:2], Text: "Let me see.", ToolCalls: []fake.ToolCall{shell("echo two")}},
			{Thoughts: thoughts[2:], ToolCalls: []fake.ToolCall{shell("echo three")}},
		}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		if s.served == fake.Anthropic {
			s.checkSaid(t, fake.Seal(thoughts[0].Text), thoughts[1].Data, fake.Seal(thoughts[2].Text))
		}
		s.checkTurns(t, 4)
	}},
	{name: "busy", turns: func(string) []fake.Behaviour {
		full := fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "1"} // to the gateway's own second attempt too
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo from-the-tool")}}, full, full}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "from-the-tool")
		if waited := s.asked[len(s.asked)-1].Time.Sub(s.asked[1].Time); waited < time.Second {
			t.Errorf("it waited %s, less than Retry-After said", waited)
		}
		s.checkTurns(t, 4)
	}},
	{name: "dies", turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo from-the-tool")}}, breaks}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "from-the-tool")
		s.checkTurns(t, 3)
	}},
	{name: "dies2", twice: true, turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo from-the-tool")}}, breaks}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "from-the-tool")
		if len(s.asked) < 2 {
			t.Error("no stream of it broke off")
		}
	}},
	{name: "dies-always", env: []string{"CLAUDE_CODE_MAX_RETRIES=1"}, fails: "broke off its answer", turns: func(string) []fake.Behaviour {
		return slices.Repeat([]fake.Behaviour{breaks}, 9)
	}},
	{name: "refused", fails: "this is your mistake", turns: func(string) []fake.Behaviour {
		return slices.Repeat([]fake.Behaviour{{Status: http.StatusBadRequest, Message: "this is your mistake"}}, 9)
	}},
	{name: "count-tokens", known: "claude-sonnet-4-5", args: []string{"-p", "/context"}, says: "Estimated usage by category", check: func(t *testing.T, s seen) {
		t.Helper()
		counted := slices.ContainsFunc(s.all, func(r fake.Request) bool {
			return strings.HasSuffix(r.Path, "/messages/count_tokens") && r.Status == http.StatusOK
		})
		if counted != (s.served == fake.Anthropic) {
			t.Errorf("the provider counted: %v", counted)
		}
	}},
	{name: "threads", env: []string{"CLAUDE_CODE_TETHER_LIVE=1"}, turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo one")}}, {ToolCalls: []fake.ToolCall{shell("echo two")}}}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "echo one", "echo two")
		for _, r := range s.asked {
			if bytes.Contains(r.Body, []byte(`"thread":`)) {
				t.Error("a thread reached the provider")
			}
		}
		s.checkTurns(t, 3)
	}},
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

func TestClaudeCode(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: settings}
	fakes := map[string]*fake.Server{}
	for _, c := range scenes {
		for _, d := range []fake.Dialect{fake.Anthropic, fake.OpenAI} {
			f := fake.Start(t, fake.Config{Dialect: d, Name: c.model(d)})
			fakes[c.model(d)] = f
			o.Providers = append(o.Providers, c.provider("", f, d))
			if c.twice {
				o.Providers = append(o.Providers, c.provider("q-", fake.Start(t, fake.Config{Dialect: d}), d))
			}
		}
	}
	g := gateway.Run(t, o)
	t.Run("run", func(t *testing.T) {
		for _, c := range scenes {
			for _, d := range []fake.Dialect{fake.Anthropic, fake.OpenAI} {
				t.Run(c.name+" over "+string(d), func(t *testing.T) {
					t.Parallel()
					f := fakes[c.model(d)]
					c.play(t, g, f, d)
				})
			}
		}
	})
	g.AssertSound(t)
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
	cmd := exec.CommandContext(ctx, tool(t, "CLAUDE_BIN", ".tools/npm/node_modules/@anthropic-ai/claude-code-*/claude"), args...)
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
