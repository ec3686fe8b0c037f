package sdk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// talk is one conversation that a driver has: two questions, each with two rounds of tools. In the second one, Claude is away in the
// middle, and a model of another maker stands in.
type talk struct {
	Name   string `json:"name"`
	Client string `json:"client"` // what the driver calls it by
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Budget bool   `json:"budget"` // of thinking; else the model decides
}

// heard is what a driver got of a conversation.
type heard struct {
	Name, Failed   string
	Said, Thoughts []string
}

// theirThought is what the other model thinks, which nobody signs.
const theirThought = "I look as well."

// claudes are what Claude does in a conversation; the other model is asked once, after the refusal.
var (
	claudes = []fake.Behaviour{
		{
			Thoughts: []fake.Thought{{Text: "first I think"}, {Data: "c2VjcmV0IHRob3VnaHRz"}}, Text: "Let me see.",
			Between: []fake.Thought{{Text: "Paris — it is"}}, ToolCalls: weather[:1],
		},
		{Thoughts: []fake.Thought{{Text: "now the other one"}}, ToolCalls: weather[1:]},
		{Thoughts: []fake.Thought{{Text: "both are known"}}, Text: "It is sunny."},
		{Thoughts: []fake.Thought{{Text: "again two"}}, ToolCalls: []fake.ToolCall{{Name: "get_weather", Args: `{"city":"Oslo"}`}}},
		{Status: http.StatusServiceUnavailable},
		{Thoughts: []fake.Thought{{Text: "all are known"}}, Text: "It is sunny there, too."},
	}
	others = fake.Behaviour{Thoughts: []fake.Thought{{Text: theirThought}}, ToolCalls: []fake.ToolCall{{Name: "get_weather", Args: `{"city":"Bergen"}`}}}
)

// interleaved are who talks with which models. Each has a gateway of its own, so that Claude is not away so often that it counts as down.
var interleaved = []struct {
	client, budget, adaptive string
	argv                     func(*testing.T) []string
	streams                  bool // the conversation with the adaptive model
}{
	{"anthropic", "claude-sonnet-4-5", "claude-opus-4-6", python("interleaved_driver.py"), true},
	{"anthropic", "claude-opus-4-5", "claude-opus-4-7", node("interleaved_driver.cjs"), false},
	{"openai", "claude-opus-4-1", "claude-opus-4-8", python("interleaved_driver.py"), false},
	{"openai", "claude-opus-4-0", "claude-sonnet-4-6", node("interleaved_driver.cjs"), true},
	{"responses", "claude-sonnet-4-0", "claude-sonnet-5", python("interleaved_driver.py"), true},
	{"responses", "claude-haiku-4-5", "claude-fable-5", node("interleaved_driver.cjs"), false},
}

// TestK14InterleavedThinking: the official SDKs talk with Claude over two rounds of tools, by the flag and without it, and each thought
// goes back to Claude as it was and where it was, with its signature; also after another provider took part in the turn (K-16), which
// gets no signature, and whose own thoughts Claude does not get.
func TestK14InterleavedThinking(t *testing.T) {
	t.Parallel()
	for _, pair := range interleaved {
		talks := []talk{
			{Client: pair.client, Model: pair.budget, Budget: true},
			{Client: pair.client, Model: pair.budget, Budget: true, Stream: true},
			{Client: pair.client, Model: pair.adaptive, Stream: pair.streams},
		}
		t.Run(pair.client+" "+pair.budget, func(t *testing.T) {
			t.Parallel()
			claude := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
			other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
			other.Behave(others)
			models := []gateway.Model{{ID: pair.budget, Price: "{input: 1, output: 2}"}, {ID: pair.adaptive, Price: "{input: 1, output: 2}"}}
			g := gateway.Run(t, gateway.Options{
				Config:    strings.Replace(settings, "routing: {", "routing: {strategy: ordered, ", 1),
				Providers: []gateway.Provider{{ID: "anthropic", Fake: claude}, {ID: "other", Fake: other, Models: models}},
			})
			for i := range talks {
				talks[i].Name = fmt.Sprintf("%s, stream=%v", talks[i].Model, talks[i].Stream)
				claude.Queue(claudes...)
			}
			for i, got := range converse(t, g, pair.argv(t), talks) {
				t.Run("K-15 K-16 "+got.Name, func(t *testing.T) { got.check(t, talks[i].Client) })
			}
			checkShown(t, claude, talks)
			for _, r := range other.Generations() {
				if r.Status == http.StatusOK && strings.Contains(string(r.Body), fake.Sign("again two")) {
					t.Errorf("the other provider was shown a signature: %s", r.Body)
				}
			}
			g.AssertSound(t)
		})
	}
}

// converse runs a driver, which prints a line for each conversation.
func converse(t *testing.T, g *gateway.Gateway, argv []string, talks []talk) (all []heard) {
	t.Helper()
	runs, err := json.Marshal(talks)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, err := runDriver(t, argv, append(access(g), "BARDO_RUNS="+string(runs))...)
	if err != nil {
		t.Fatalf("%v: %v\n%s\n%s", argv, err, out, errs)
	}
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var h heard
		if err := d.Decode(&h); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
		all = append(all, h)
	}
	if len(all) != len(talks) {
		t.Fatalf("%d of %d conversations: %s\n%s", len(all), len(talks), out, errs)
	}
	return all
}

// check: the client heard every answer, and every thought. Clients of Chat Completions hear the thoughts of an answer as one.
func (h heard) check(t *testing.T, client string) {
	t.Helper()
	if h.Failed != "" {
		t.Fatal(h.Failed)
	}
	said := []string{"Let me see.", "", "It is sunny.", "", "", "It is sunny there, too."}
	thoughts := []string{"first I think", "Paris — it is", "now the other one", "both are known", "again two", theirThought, "all are known"}
	if client == "openai" {
		thoughts = slices.Replace(thoughts, 0, 2, "first I thinkParis — it is")
	}
	if !slices.Equal(h.Said, said) || !slices.Equal(h.Thoughts, thoughts) {
		t.Errorf("it heard %q and thoughts %q; want %q and %q", h.Said, h.Thoughts, said, thoughts)
	}
}

// checkShown: the fake checks that the thinking of a turn is as it gave it; it refused nothing, and at the end of each conversation it was
// shown all of both turns that was its own, and went on thinking.
func checkShown(t *testing.T, claude *fake.Server, talks []talk) {
	t.Helper()
	asked := claude.Generations()
	if len(asked) != len(talks)*len(claudes) {
		t.Fatalf("it was asked %d times, want %d", len(asked), len(talks)*len(claudes))
	}
	for i, r := range asked {
		round := i % len(claudes)
		if want := max(claudes[round].Status, http.StatusOK); r.Status != want {
			t.Errorf("request %d: it answered %d, want %d: %s", i, r.Status, want, r.Body)
		}
		of := talks[i/len(claudes)]
		flagged := of.Budget && of.Model != "claude-haiku-4-5" // which heeds no flag
		if got := strings.Contains(r.Header.Get("Anthropic-Beta"), "interleaved-thinking-2025-05-14"); got != flagged {
			t.Errorf("request %d, flag: %v", i, r.Header)
		}
		if round == len(claudes)-1 {
			checkHistory(t, r.Body)
		}
	}
}

func checkHistory(t *testing.T, body []byte) {
	t.Helper()
	var asked struct {
		Thinking struct{ Type string }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range asked.Messages {
		var blocks []struct{ Type, Thinking, Signature, Data, Text string }
		if m.Role != "assistant" || json.Unmarshal(m.Content, &blocks) != nil {
			continue
		}
		for _, b := range blocks {
			got = append(got, strings.TrimSpace(b.Type+" "+b.Thinking+b.Signature+b.Data+b.Text))
		}
	}
	thought := func(text string) string { return "thinking " + text + fake.Sign(text) }
	want := []string{
		thought("first I think"), "redacted_thinking c2VjcmV0IHRob3VnaHRz", "text Let me see.", thought("Paris — it is"), "tool_use",
		thought("now the other one"), "tool_use", thought("both are known"), "text It is sunny.", thought("again two"), "tool_use", "tool_use",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the history is\n%q\nwant\n%q", got, want)
	}
	if kind := asked.Thinking.Type; kind != "enabled" && kind != "adaptive" {
		t.Errorf("thinking is %q", kind)
	}
}
