package e2e

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

// thinker is a conversation of an Anthropic client that lets the model think, in the middle of working with a tool.
const thinker = `{"model":%q, "max_tokens":4000,"stream":%v,"thinking":{"type":%q%s},"tools":[{"name":"look","input_schema":{"type":"object"}}],` +
	`"messages":[ {"role":"user","content":"hi"}, {"role":"assistant","content":[%s{"type":"tool_use","id":"toolu_1","name":"look","input":{}}]},` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"seen"}]}]}`

// thinking is a block of a history as the API wants it back.
func thinking(text, signature string) string {
	return fmt.Sprintf(`{"type":"thinking","thinking":%q,"signature":%q}, `, text, signature)
}

func withBudget(model string, stream bool, blocks string) string {
	return fmt.Sprintf(thinker, model, stream, "enabled", `,"budget_tokens":1024`, blocks)
}

func adapting(model string, stream bool, blocks string) string {
	return fmt.Sprintf(thinker, model, stream, "adaptive", "", blocks)
}

// anthropicCustom is a custom provider of Anthropic's format with one model.
func anthropicCustom(id string, s *fake.Server, model string) gateway.Provider {
	return gateway.Provider{ID: id, Fake: s, Format: "anthropic", Models: models(model, "")}
}

func mustAnswer(t *testing.T, got gateway.Answer, provider, attempts string, degraded ...string) {
	t.Helper()
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	h := got.Header
	if h.Get("X-Bardo-Provider") != provider || h.Get("X-Bardo-Attempts") != attempts || h.Get("X-Bardo-Degraded") != strings.Join(degraded, ",") {
		t.Errorf("answered by %s after %s attempts, degraded %q; want %s after %s, degraded %q",
			h.Get("X-Bardo-Provider"), h.Get("X-Bardo-Attempts"), h.Get("X-Bardo-Degraded"), provider, attempts, degraded)
	}
}

// TestK16RefusedSignaturesAreLeftOut: a provider that refuses the signatures of a history is asked once more without them.
func TestK16RefusedSignaturesAreLeftOut(t *testing.T) {
	t.Parallel()
	mine := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "mine", Signer: "mine"})
	other := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "other", Signer: "other"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		anthropicCustom("mine", mine, "claude-x"), anthropicCustom("other", other, "claude-x"),
	}})
	for _, stream := range []bool{false, true} {
		said := thinking("Hm.", mine.Sign("Hm.")) + `{"type":"redacted_thinking","data":"x"},`
		t.Run(fmt.Sprintf("its own are untouched, stream=%v", stream), func(t *testing.T) {
			body := withBudget("claude-x", stream, said)
			mustAnswer(t, g.Messages(t, body), "mine", "1")
			if got := lastOf(t, mine); string(got.Body) != body {
				t.Errorf("the provider got\n%s\nwant\n%s", got.Body, body)
			}
		})
		for name, c := range map[string]struct {
			body func(string, bool, string) string
			lost []string
		}{
			"with a budget, thinking is off for this turn": {withBudget, []string{"thinking"}}, "thinking adapts": {adapting, []string{"thinking"}},
		} {
			t.Run(fmt.Sprintf("%s, stream=%v", name, stream), func(t *testing.T) {
				other.Forget()
				got := g.Messages(t, strings.Replace(c.body("other/claude-x", stream, said), `"hi"`, `"hi there"`, 1))
				mustAnswer(t, got, "other", "2", c.lost...)
				if n := len(other.Generations()); n != 2 {
					t.Errorf("%d calls", n)
				}
				want := strings.Replace(c.body("claude-x", stream, ""), `"hi"`, `"hi there"`, 1)
				want = strings.Replace(want, `"thinking":{"type":"enabled","budget_tokens":1024},`, "", 1)
				if last := lastOf(t, other); string(last.Body) != want {
					t.Errorf("the provider got\n%s\nwant\n%s", last.Body, want)
				}
				r := recordOf(t, g, got)
				if r.Attempts != 2 || !slices.Equal(r.Degraded, c.lost) || r.Status != "ok" {
					t.Errorf("record %+v", r)
				}
			})
		}
	}
	t.Run("the provider's health is not hurt", func(t *testing.T) {
		for range 8 {
			mustAnswer(t, g.Messages(t, withBudget("claude-x", true, thinking("Hm.", other.Sign("Hm.")))), "mine", "2", "thinking")
		}
	})
	t.Run("counting tokens", func(t *testing.T) {
		body := `{"model":"claude-x","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[` + thinking("Hm.", "nobody's") + `{"type":"text","text":"a"}]},{"role":"user","content":"so?"}]}`
		got := g.Do(t, gateway.Call{Path: "/v1/messages/count_tokens", Body: body, Header: []string{"anthropic-version: 2023-06-01"}})
		if got.Status != http.StatusOK || !strings.Contains(got.Body, `"input_tokens"`) {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	})
}

// TestK16FailoverWithSignedThinking: from the provider that signed to one that checks, and on from there.
func TestK16FailoverWithSignedThinking(t *testing.T) {
	t.Parallel()
	first := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "first", Signer: "first"})
	second := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "second", Signer: "second"})
	third := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "third"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		anthropicCustom("first", first, "claude-x"), anthropicCustom("second", second, "claude-x"),
		{ID: "third", Fake: third, Models: models("claude-x", "")},
	}})
	said := thinking("Hm.", first.Sign("Hm."))
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("to one of the same format, stream=%v", stream), func(t *testing.T) {
			first.Queue(fake.Behaviour{Status: 503})
			mustAnswer(t, g.Messages(t, adapting("claude-x", stream, said)), "second", "3", "thinking")
		})
		t.Run(fmt.Sprintf("which then fails, stream=%v", stream), func(t *testing.T) {
			first.Queue(fake.Behaviour{Status: 529})
			second.Queue(fake.Behaviour{Status: 400, Message: "messages.1.content.0: Invalid `signature` in `thinking` block"}, fake.Behaviour{Status: 503})
			got := g.Messages(t, adapting("claude-x", stream, said))
			mustAnswer(t, got, "third", "4", strings.Split(got.Header.Get("X-Bardo-Degraded"), ",")...)
			if !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "thinking") {
				t.Errorf("degraded %q", got.Header.Get("X-Bardo-Degraded"))
			}
		})
		t.Run(fmt.Sprintf("a refusal that stands is the caller's, stream=%v", stream), func(t *testing.T) {
			first.Forget()
			refused := fake.Behaviour{Status: 400, Message: "messages.1.content.0: Invalid `signature` in `thinking` block"}
			first.Queue(refused, refused)
			got := g.Messages(t, adapting("first/claude-x", stream, said))
			mustFail(t, ask{dialect: fake.Anthropic}, got, http.StatusBadRequest, "invalid_request")
			if n := len(first.Generations()); n != 2 || got.Header.Get("X-Bardo-Attempts") != "2" || !strings.Contains(got.Body, "messages.1.content.0") {
				t.Errorf("%d calls, %q attempts: %s", n, got.Header.Get("X-Bardo-Attempts"), got.Body)
			}
		})
	}
}

// TestD15AnAttemptWithoutThinkingIsOneOfTheRetries: where there are none, the refusal is the caller's at once.
func TestD15AnAttemptWithoutThinkingIsOneOfTheRetries(t *testing.T) {
	t.Parallel()
	only := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{
		Config: "limits: {rpm: 0}\nrouting: {max_retries: 0}\n", Providers: []gateway.Provider{anthropicCustom("only", only, "claude-x")},
	})
	for _, stream := range []bool{false, true} {
		only.Forget()
		got := g.Messages(t, adapting("claude-x", stream, thinking("Hm.", "nobody's")))
		mustFail(t, ask{dialect: fake.Anthropic}, got, http.StatusBadRequest, "invalid_request")
		if n := len(only.Generations()); n != 1 {
			t.Errorf("stream=%v: %d calls", stream, n)
		}
	}
}

// TestK16AFamilyThatDoesNotSign: a model that is known to be no Claude is never shown a signature, and needs no second try.
func TestK16AFamilyThatDoesNotSign(t *testing.T) {
	t.Parallel()
	claude := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "claude"})
	plain := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "plain", Signer: fake.Unsigned})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		anthropicCustom("claude", claude, "best"),
		{ID: "plain", Fake: plain, Format: "anthropic", Models: []gateway.Model{{ID: "best", Upstream: "glm-9", Price: "{input: 1, output: 2}", More: "family: glm"}}},
	}})
	said := `{"type":"redacted_thinking","data":"x"},` + thinking("Hm.", claude.Sign("Hm."))
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			claude.Queue(fake.Behaviour{Status: 503})
			mustAnswer(t, g.Messages(t, withBudget("best", stream, said)), "plain", "2", "thinking")
			want := withBudget("glm-9", stream, thinking("Hm.", ""))
			if got := lastOf(t, plain); string(got.Body) != want {
				t.Errorf("the provider got\n%s\nwant\n%s", got.Body, want)
			}
			claude.Forget()
			mustAnswer(t, g.Messages(t, withBudget("plain/best", stream, thinking("Mine.", ""))), "plain", "1")
		})
	}
}

// TestK16AToolLoopOverBothFormats: each round of one loop is answered by whoever is there; thinking goes where it is understood.
func TestK16AToolLoopOverBothFormats(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			claude := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "claude"})
			other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other", Allow: []string{"reasoning_effort"}})
			g := gateway.Run(t, gateway.Options{Config: inOrder, Providers: []gateway.Provider{
				{ID: "anthropic", Fake: claude}, {ID: "other", Fake: other, Models: models("claude-sonnet-4-5", "")},
			}})
			call := fake.Behaviour{Thoughts: []fake.Thought{{Text: "I must look."}}, ToolCalls: []fake.ToolCall{{Name: "look", Args: `{"at":1}`}}}
			l := &loop{g: g, stream: stream}
			l.say(`"hi"`)

			claude.Queue(call)
			mustAnswer(t, l.next(t), "anthropic", "1")

			claude.Queue(fake.Behaviour{Status: 503})
			other.Queue(fake.Behaviour{ToolCalls: call.ToolCalls})
			got := l.next(t)
			if got.Header.Get("X-Bardo-Provider") != "other" || !slices.Contains(strings.Split(got.Header.Get("X-Bardo-Degraded"), ","), "thinking") {
				t.Errorf("provider %q, degraded %q", got.Header.Get("X-Bardo-Provider"), got.Header.Get("X-Bardo-Degraded"))
			}
			if other.Saw(claude.Sign("I must look.")) || other.Saw("I must look.") {
				t.Error("thinking went to another family")
			}

			// Back at Claude, the turn has begun with its own thinking, and goes on with it.
			claude.Queue(fake.Behaviour{ToolCalls: call.ToolCalls})
			mustAnswer(t, l.next(t), "anthropic", "1")
			if last := string(lastOf(t, claude).Body); !strings.Contains(last, claude.Sign("I must look.")) || !strings.Contains(last, `"thinking":{"type":"enabled"`) {
				t.Errorf("Claude's thinking is lost: %s", last)
			}
			claude.Queue(fake.Behaviour{Text: "It is there."})
			mustAnswer(t, l.next(t), "anthropic", "1")

			// Of a turn that the other one began, Claude goes on without thinking: it cannot begin to think in the middle.
			l.say(`"And there?"`)
			claude.Queue(fake.Behaviour{Status: 503})
			other.Queue(fake.Behaviour{ToolCalls: call.ToolCalls})
			l.next(t)
			var refused fake.Behaviour // which the fake refuses before it plays it
			claude.Queue(refused, fake.Behaviour{Text: "Nor there."})
			mustAnswer(t, l.next(t), "anthropic", "2", "thinking")

			// The next turn thinks again, and Claude's own thoughts are still its own.
			l.say(`"And now?"`)
			claude.Queue(fake.Behaviour{Thoughts: call.Thoughts, Text: "Still there."})
			mustAnswer(t, l.next(t), "anthropic", "1")
			if last := string(lastOf(t, claude).Body); !strings.Contains(last, claude.Sign("I must look.")) {
				t.Errorf("Claude's thinking is lost: %s", last)
			}
		})
	}
}

// loop is a client that calls the tools it is told to.
type loop struct {
	g        *gateway.Gateway
	stream   bool
	messages []string
}

func (l *loop) say(content string) {
	l.messages = append(l.messages, `{"role":"user","content":`+content+`}`)
}

// next sends the conversation, adds the answer to it, and answers the calls in it.
func (l *loop) next(t *testing.T) gateway.Answer {
	t.Helper()
	body := fmt.Sprintf(`{"model":"claude-sonnet-4-5","max_tokens":4000,"stream":%v,"thinking":{"type":"enabled","budget_tokens":1024},"tools":[{"name":"look","input_schema":{"type":"object"}}],"messages":[%s]}`,
		l.stream, strings.Join(l.messages, ","))
	got := l.g.Messages(t, body)
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	blocks := blocksOf(t, got, l.stream)
	content, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	l.messages = append(l.messages, `{"role":"assistant","content":`+string(content)+`}`)
	var results []string
	for _, b := range blocks {
		if b["type"] == "tool_use" {
			results = append(results, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":"seen"}`, b["id"]))
		}
	}
	if len(results) > 0 {
		l.say("[" + strings.Join(results, ",") + "]")
	}
	return got
}

// blocksOf are an answer's content blocks as a client sends them back.
func blocksOf(t *testing.T, got gateway.Answer, stream bool) []map[string]any {
	t.Helper()
	if !stream {
		var m struct{ Content []map[string]any }
		got.JSON(t, &m)
		return m.Content
	}
	var blocks []map[string]any
	for _, ev := range got.Events(t) {
		if ev.Comment != "" {
			continue
		}
		var e struct {
			Type  string
			Block map[string]any `json:"content_block"`
			Delta struct {
				Text, Thinking, Signature string
				Partial                   string `json:"partial_json"`
			}
		}
		if err := json.Unmarshal([]byte(ev.Data), &e); err != nil {
			t.Fatalf("%q: %v", ev.Data, err)
		}
		switch e.Type {
		case "content_block_start":
			blocks = append(blocks, e.Block)
		case "content_block_delta":
			b := blocks[len(blocks)-1]
			for key, more := range map[string]string{"text": e.Delta.Text, "thinking": e.Delta.Thinking, "signature": e.Delta.Signature, "partial": e.Delta.Partial} {
				if more != "" {
					old, _ := b[key].(string)
					b[key] = old + more
				}
			}
		case "content_block_stop":
			b := blocks[len(blocks)-1]
			if args, ok := b["partial"].(string); ok {
				b["input"] = json.RawMessage(args)
				delete(b, "partial")
			}
		}
	}
	return blocks
}
