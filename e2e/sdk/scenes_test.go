package sdk

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
)

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
	{name: "chat", over: fake.Anthropic, what: "answers in print mode", check: func(t *testing.T, s seen) { t.Helper(); s.checkTurns(t, 1) }},
	{name: "rounds", over: fake.OpenAI, what: "writes a file, reads it and runs a command, in rounds", turns: func(folder string) []fake.Behaviour {
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
	{name: "parallel", over: fake.OpenAI, what: "two calls at once", turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo first-of-two"), shell("echo second-of-two")}}}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "first-of-two", "second-of-two")
		s.checkTurns(t, 2)
	}},
	{name: "tool-error", over: fake.Anthropic, what: "results that are errors", turns: func(folder string) []fake.Behaviour {
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
	{name: "thinks", over: fake.Anthropic, what: "signed and redacted thoughts, kept over the rounds", turns: func(string) []fake.Behaviour {
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
	{name: "tool-search", over: fake.OpenAI, what: "a tool that it gives the model once the model looked for it", turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{{Name: "ToolSearch", Args: `{"query":"select:WebFetch","max_results":3}`}}}}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkTurns(t, 2)
		found := []byte(`"name":"WebFetch"`)
		if bytes.Contains(s.asked[0].Body, found) || !bytes.Contains(s.last(), found) {
			t.Errorf("the provider knew the tool before, or does not know it now: %s", s.last())
		}
	}},
	{name: "busy", over: fake.OpenAI, what: "429 in the middle of a loop: waits as long as `Retry-After` says, and goes on", turns: func(string) []fake.Behaviour {
		full := fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "1"} // to the gateway's own second attempt too
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo from-the-tool")}}, full, full}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "from-the-tool")
		s.checkTurns(t, 4)
		if n := len(s.asked); n < 2 || s.asked[n-1].Time.Sub(s.asked[1].Time) < time.Second {
			t.Error("it did not wait as long as Retry-After said")
		}
	}},
	{name: "dies", over: fake.OpenAI, what: "a stream that dies in the middle of a loop: asks again, and goes on", turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo from-the-tool")}}, breaks}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "from-the-tool")
		s.checkTurns(t, 3)
	}},
	{name: "dies2", over: fake.Anthropic, what: "the same where the model has a second provider", twice: true, turns: func(string) []fake.Behaviour {
		return []fake.Behaviour{{ToolCalls: []fake.ToolCall{shell("echo from-the-tool")}}, breaks}
	}, check: func(t *testing.T, s seen) {
		t.Helper()
		s.checkSaid(t, "from-the-tool")
		if len(s.asked) < 2 {
			t.Error("no stream of it broke off")
		}
	}},
	{name: "dies-always", over: fake.OpenAI, what: "streams that die again and again: gives up and says why", env: []string{"CLAUDE_CODE_MAX_RETRIES=1"}, fails: "broke off its answer", turns: func(string) []fake.Behaviour {
		return slices.Repeat([]fake.Behaviour{breaks}, 9)
	}},
	{name: "refused", over: fake.OpenAI, what: "400: says what the provider said", fails: "this is your mistake", turns: func(string) []fake.Behaviour {
		return slices.Repeat([]fake.Behaviour{{Status: http.StatusBadRequest, Message: "this is your mistake"}}, 9)
	}},
	{name: "count-tokens", over: fake.Anthropic, what: "`/context`, which counts tokens", known: "claude-sonnet-4-5", args: []string{"-p", "/context"}, says: "Estimated usage by category", check: func(t *testing.T, s seen) {
		t.Helper()
		counted := slices.ContainsFunc(s.all, func(r fake.Request) bool {
			return strings.HasSuffix(r.Path, "/messages/count_tokens") && r.Status == http.StatusOK
		})
		if counted != (s.served == fake.Anthropic) {
			t.Errorf("the provider counted: %v", counted)
		}
	}},
	{name: "threads", over: fake.Anthropic, what: "message threads, which it gives up when they are refused", env: []string{"CLAUDE_CODE_TETHER_LIVE=1"}, turns: func(string) []fake.Behaviour {
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
