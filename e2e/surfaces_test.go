package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// visitor is a client of one format, which asks a question of a model and hears the answer.
type visitor struct {
	name string
	ask  func(model string, stream bool, more string) gateway.Call // more: members of the body
	said func(t testing.TB, got gateway.Answer, stream bool) string
}

var surfaceClients = []visitor{
	{
		"openai", func(model string, stream bool, more string) gateway.Call {
			return gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(
				`{"model":%q,"stream":%v,"max_tokens":2000,"messages":[{"role":"user","content":"when?"}]%s}`, model, stream, more)}
		},
		func(t testing.TB, got gateway.Answer, stream bool) string {
			t.Helper()
			return text(t, ask{dialect: fake.OpenAI, stream: stream}, got)
		},
	},
	{
		"anthropic", func(model string, stream bool, more string) gateway.Call {
			return gateway.Call{Path: "/v1/messages", Header: []string{"anthropic-version: 2023-06-01"}, Body: fmt.Sprintf(
				`{"model":%q,"stream":%v,"max_tokens":2000,"messages":[{"role":"user","content":"when?"}]%s}`, model, stream, more)}
		},
		func(t testing.TB, got gateway.Answer, stream bool) string {
			t.Helper()
			return text(t, ask{dialect: fake.Anthropic, stream: stream}, got)
		},
	},
	{
		"responses", func(model string, stream bool, more string) gateway.Call {
			return gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":%q,"stream":%v,"input":"when?"%s}`, model, stream, more)}
		},
		func(t testing.TB, got gateway.Answer, stream bool) string {
			t.Helper()
			if stream {
				return streamed(t, got).text()
			}
			var r response
			got.JSON(t, &r)
			return r.text()
		},
	},
	{
		"gemini", func(model string, stream bool, more string) gateway.Call {
			return gateway.Call{Path: geminiPath(model, stream), Body: fmt.Sprintf(
				`{"contents":[{"role":"user","parts":[{"text":"when?"}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true}}%s}`, more)}
		},
		func(t testing.TB, got gateway.Answer, stream bool) string {
			t.Helper()
			return readGemini(t, got, stream).text
		},
	},
}

// attachedReasoning is reported beside an answer: bardo.reasoning.
type attachedReasoning struct {
	Provider, Model, Visibility string
	Content                     *string
	Tokens                      int64 `json:"reasoning_tokens"`
	Interleaved                 bool
	Steps                       []struct{ Content string }
	Cost                        struct {
		Tokens   int64   `json:"reasoning_tokens"`
		Billed   *bool   `json:"billed_as_output"`
		Discount float64 `json:"discount_factor"`
		USD      *float64
	}
}

// attachedIn finds the reasoning beside an answer, nil for nothing. In a stream it comes with the last event, or right before the terminator.
func attachedIn(t testing.TB, got gateway.Answer, stream bool) *attachedReasoning {
	t.Helper()
	type own struct{ Reasoning *attachedReasoning }
	type holder struct {
		Bardo    *own
		Choices  []json.RawMessage
		Response struct{ Bardo *own }
	}
	of := func(data string) *attachedReasoning {
		var h holder
		if err := json.Unmarshal([]byte(data), &h); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if h.Bardo == nil {
			h.Bardo = h.Response.Bardo
		}
		if h.Bardo == nil {
			return nil
		}
		if len(h.Choices) > 0 && stream {
			t.Errorf("it stands beside choices in a chunk: %s", data)
		}
		return h.Bardo.Reasoning
	}
	if !stream {
		return of(got.Body)
	}
	var found *attachedReasoning
	var evs []gateway.Event
	for _, ev := range got.Events(t) {
		if ev.Comment == "" {
			evs = append(evs, ev)
		}
	}
	for i, ev := range evs {
		if ev.Data == "[DONE]" {
			continue
		}
		b := of(ev.Data)
		if b != nil && i != len(evs)-1 && (i != len(evs)-2 || evs[i+1].Data != "[DONE]") {
			t.Errorf("it comes too early in %s", got.Body)
		}
		if b != nil {
			found = b
		}
	}
	return found
}

// whitby is a word that no answer says, but its thoughts.
const whitby = "Whitby"

// thoughtful thinks before it answers. What it took is counted, where its format counts thoughts.
var thoughtful = fake.Behaviour{
	Text: "At nine.", Thoughts: []fake.Thought{{Text: "The tide at " + whitby + " turns.\n\nSo it is nine."}},
	Usage: &fake.Usage{Input: 100, Output: 60, Reasoning: 40},
}

// wordsOfThoughts are what shows or proves a thought in the formats.
var wordsOfThoughts = []string{
	whitby, `"reasoning_content"`, `"reasoning_details"`, `"type":"thinking"`, `"type":"redacted_thinking"`, "signature", `"type":"reasoning"`, "encrypted_content",
	`"thought"`, "thoughtSignature", "reasoning_summary",
}

// surfacesLab is a gateway with a provider of each format, whose model has the format's name.
func surfacesLab(t *testing.T, config string) (*gateway.Gateway, map[string]*fake.Server) {
	t.Helper()
	fakes := map[string]*fake.Server{}
	o := gateway.Options{Config: quick + config}
	for _, p := range []struct {
		id     string
		format fake.Dialect
		more   string
	}{{"openai-like", fake.OpenAI, ""}, {"claude-like", fake.Anthropic, ""}, {"responses-like", fake.OpenAI, "responses: true"}, {"gemini-like", fake.Gemini, ""}} {
		fakes[p.id] = fake.Start(t, fake.Config{Dialect: p.format, Name: p.id})
		fakes[p.id].Behave(thoughtful)
		o.Providers = append(o.Providers, gateway.Provider{ID: p.id, Fake: fakes[p.id], Format: string(p.format), Models: models(p.id, ""), More: p.more})
	}
	return gateway.Run(t, o), fakes
}

// shows reports whether a provider shows its thoughts to a client: Google's does to who asks for them, as its own clients do here.
func shows(model, client string) bool { return model != "gemini-like" || client == "gemini" }

// TestD44EverySurface: what each surface shows of a model's thoughts, in the format of every client, over providers of every format,
// whole and streamed. What was thought is billed and told everywhere.
func TestD44EverySurface(t *testing.T) {
	t.Parallel()
	g, _ := surfacesLab(t, "")
	for _, c := range surfaceClients {
		for _, model := range []string{"openai-like", "claude-like", "responses-like", "gemini-like"} {
			for _, stream := range []bool{false, true} {
				plain := ""
				for _, surface := range []string{"", "api", "full", "web", "tui", "telegram", "discord"} {
					t.Run(fmt.Sprintf("%s to %s, stream=%v, %s", model, c.name, stream, surface), func(t *testing.T) {
						call := c.ask(model, stream, "")
						switch surface {
						case "":
						case "full":
							call.Header = append(call.Header, "X-Bardo-Reasoning: full")
						default:
							call.Header = append(call.Header, "X-Bardo-Surface: "+surface)
						}
						got := g.Do(t, call)
						if got.Status != http.StatusOK || got.Err != nil {
							t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
						}
						if said := c.said(t, got, stream); said != "At nine." {
							t.Errorf("it says %q: %s", said, got.Body)
						}
						hides := surface == "tui" || surface == "telegram" || surface == "discord"
						answer := comments.ReplaceAllString(got.Body, "")
						if hides {
							for _, w := range wordsOfThoughts {
								if strings.Contains(answer, w) {
									t.Errorf("%s is in %s", w, answer)
								}
							}
						} else if shows(model, c.name) && !strings.Contains(answer, whitby) {
							t.Errorf("the thoughts are missing in %s", answer)
						}
						checkAttached(t, attachedIn(t, got, stream), surface, model, shows(model, c.name))
						checkThoughtTold(t, c, got, stream, model)
						told := strings.Contains(got.Body, ": thinking… ")
						if want := surface == "tui" && stream && c.name != "gemini" && shows(model, c.name); told != want {
							t.Errorf("progress is told %v, want %v: %s", told, want, got.Body)
						}
						cost := fmt.Sprint(recordOf(t, g, got).CostUSD)
						if plain == "" {
							plain = cost
						}
						if cost != plain || cost == "0" {
							t.Errorf("it costs %s, on the API %s", cost, plain)
						}
					})
				}
			}
		}
	}
	g.AssertSound(t)
}

// checkAttached checks the reasoning beside an answer of thoughtful.
func checkAttached(t *testing.T, b *attachedReasoning, surface, model string, shown bool) {
	t.Helper()
	if wanted := surface == "full" || surface == "web"; (b != nil) != wanted {
		t.Fatalf("beside the answer stands %+v", b)
	}
	if b == nil {
		return
	}
	if b.Provider != model || b.Model != model || b.Cost.Billed == nil || b.Cost.Discount != 1 || b.Tokens == 0 || b.Cost.Tokens != b.Tokens || b.Interleaved {
		t.Errorf("%+v", b)
	}
	if usd := float64(b.Tokens) * 2 / 1e6; b.Cost.USD == nil || *b.Cost.USD != usd { // its output costs 2 USD per million tokens
		t.Errorf("%d tokens of thoughts cost %v, want %v", b.Tokens, b.Cost.USD, usd)
	}
	switch {
	case shown && (b.Content == nil || !strings.Contains(*b.Content, whitby) || b.Visibility != "visible" && b.Visibility != "summarized" || len(b.Steps) == 0):
		t.Errorf("the thoughts are %+v", b)
	case !shown && b.Visibility != "opaque":
		t.Errorf("what nobody sees is %+v", b)
	case !shown && surface == "web" && (b.Content == nil || *b.Content != "Reasoning performed (not visible): 40 tokens"):
		t.Errorf("the notice is %+v", b)
	case !shown && surface == "full" && b.Content != nil:
		t.Errorf("the content is %q", *b.Content)
	}
}

// checkThoughtTold checks that the client is told how much was thought: by a header, or in a stream by its last comment, which
// Google's clients do not read.
func checkThoughtTold(t *testing.T, c visitor, got gateway.Answer, stream bool, model string) {
	t.Helper()
	told := got.Header.Get("X-Bardo-Reasoning-Tokens")
	switch {
	case stream && c.name == "gemini":
		return
	case stream:
		at := strings.Index(got.Body, ": bardo {")
		if at < 0 {
			t.Fatalf("no summary in %s", got.Body)
		}
		var s struct {
			Tokens int64 `json:"reasoning_tokens"`
		}
		if err := json.NewDecoder(strings.NewReader(got.Body[at+len(": bardo "):])).Decode(&s); err != nil {
			t.Fatal(err)
		}
		told = fmt.Sprint(s.Tokens)
	}
	if model == "claude-like" { // it does not count thoughts: they are estimated from their text
		if told == "" || told == "0" {
			t.Errorf("told are %q tokens of thoughts", told)
		}
		return
	}
	if told != "40" {
		t.Errorf("told are %q tokens of thoughts, want 40", told)
	}
}

// TestReasoningHeaderIsAClosedSet: any other word is refused, in the caller's format.
func TestReasoningHeaderIsAClosedSet(t *testing.T) {
	t.Parallel()
	g, fakes := surfacesLab(t, "")
	for _, c := range surfaceClients {
		call := c.ask("openai-like", false, "")
		call.Header = append(call.Header, "X-Bardo-Reasoning: some")
		got := g.Do(t, call)
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "X-Bardo-Reasoning") || !strings.Contains(got.Body, "full or default") {
			t.Errorf("%s: %d %s", c.name, got.Status, got.Body)
		}
		call = c.ask("openai-like", false, `,"bardo":{"surface":"newspaper"}`)
		if got := g.Do(t, call); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "surface") {
			t.Errorf("%s: %d %s", c.name, got.Status, got.Body)
		}
	}
	if n := len(fakes["openai-like"].Generations()); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
	call := surfaceClients[0].ask("openai-like", false, `,"bardo":{"surface":"telegram"}`)
	call.Header = append(call.Header, "X-Bardo-Reasoning: default")
	if got := g.Do(t, call); got.Status != http.StatusOK || strings.Contains(got.Body, whitby) {
		t.Errorf("the body's surface: %d %s", got.Status, got.Body)
	}
	call.Header = []string{"X-Bardo-Reasoning: full"}
	got := g.Do(t, call)
	if b := attachedIn(t, got, false); b == nil || b.Content == nil || strings.Count(got.Body, `"reasoning_content"`) != 0 {
		t.Errorf("who asks for the chain gets it beside what a chat shows: %s", got.Body)
	}
}

// TestHiddenReasoningIsToldInTrailers: to a client of a stream that asked for them.
func TestHiddenReasoningIsToldInTrailers(t *testing.T) {
	t.Parallel()
	g, _ := surfacesLab(t, "")
	for _, surface := range []string{"api", "web", "tui", "telegram", "discord"} {
		call := surfaceClients[0].ask("openai-like", true, "")
		call.Header = []string{"X-Bardo-Surface: " + surface, "TE: trailers"}
		if got := g.Do(t, call); got.Trailer.Get("X-Bardo-Reasoning-Tokens") != "40" {
			t.Errorf("%s: %d, trailers %v", surface, got.Status, got.Trailer)
		}
	}
}

// TestSurfacesOfLegacyCompletions: a format without words for thoughts has them beside its answer, and never in it.
func TestSurfacesOfLegacyCompletions(t *testing.T) {
	t.Parallel()
	g, _ := surfacesLab(t, "")
	for _, stream := range []bool{false, true} {
		for _, surface := range []string{"api", "web", "telegram"} {
			got := g.Do(t, gateway.Call{
				Path: "/v1/completions", Body: fmt.Sprintf(`{"model":"claude-like","prompt":"when?","max_tokens":2000,"stream":%v}`, stream),
				Header: []string{"X-Bardo-Surface: " + surface},
			})
			if got.Status != http.StatusOK || strings.Contains(got.Body, whitby) != (surface == "web") {
				t.Errorf("%s, stream=%v: %d %s", surface, stream, got.Status, got.Body)
			}
			checkAttached(t, attachedIn(t, got, stream), surface, "claude-like", true)
		}
	}
}

// TestThoughtsInTagsAreHiddenToo: what a model writes between tags is a thought on every surface.
func TestThoughtsInTagsAreHiddenToo(t *testing.T) {
	t.Parallel()
	g, fakes := surfacesLab(t, "")
	fakes["openai-like"].Behave(fake.Behaviour{Text: "<think>The tide at " + whitby + " turns.</think>At nine."})
	for _, c := range surfaceClients {
		for _, stream := range []bool{false, true} {
			for _, surface := range []string{"web", "telegram"} {
				call := c.ask("openai-like", stream, "")
				call.Header = append(call.Header, "X-Bardo-Surface: "+surface)
				got := g.Do(t, call)
				if said := c.said(t, got, stream); said != "At nine." || strings.Contains(got.Body, whitby) != (surface == "web") {
					t.Errorf("%s, stream=%v, %s: it says %q: %s", c.name, stream, surface, said, got.Body)
				}
				checkAttached(t, attachedIn(t, got, stream), surface, "openai-like", true)
			}
		}
	}
}

// TestD44StoredAnswersAreShownByTheirReadersSurface: what is stored holds the thoughts, whoever asked first.
func TestD44StoredAnswersAreShownByTheirReadersSurface(t *testing.T) {
	t.Parallel()
	g, fakes := surfacesLab(t, "")
	const cold = `,"temperature":0`
	for _, model := range []string{"openai-like", "claude-like"} {
		n := 0
		for _, first := range []string{"telegram", "api"} {
			for _, c := range surfaceClients[:2] {
				for _, stream := range []bool{false, true} {
					more := cold + fmt.Sprintf(`,"metadata":{"user_id":%q}`, first+model)
					if c.name == "openai" {
						more = cold + fmt.Sprintf(`,"user":%q`, first+model)
					}
					for _, surface := range []string{first, "api", "telegram", "web", "tui", "discord"} {
						call := c.ask(model, stream, more)
						call.Header = append(call.Header, "X-Bardo-Surface: "+surface, fast)
						got := g.Do(t, call)
						if got.Status != http.StatusOK {
							t.Fatalf("%d %s", got.Status, got.Body)
						}
						if said := c.said(t, got, stream); said != "At nine." {
							t.Errorf("%s says %q", surface, said)
						}
						hides := surface == "tui" || surface == "telegram" || surface == "discord"
						if strings.Contains(got.Body, whitby) == hides {
							t.Errorf("%s of an answer that is %q, stream=%v: %s", surface, got.Header.Get("X-Bardo-Cache"), stream, got.Body)
						}
						if b := attachedIn(t, got, stream); (b != nil) != (surface == "web") || b != nil && (b.Content == nil || !strings.Contains(*b.Content, whitby)) {
							t.Errorf("beside it stands %+v: %s", b, got.Body)
						}
						if k := got.Header.Get("X-Bardo-Cache"); k == "hash" {
							n++
						}
						if surface == "discord" {
							mustReveal(t, g, g.Key, got)
						}
					}
				}
			}
		}
		if calls := len(fakes[model].Generations()); n == 0 || calls > 8 {
			t.Errorf("%s: %d calls, %d stored answers", model, calls, n)
		}
	}
}

// revealed asks for the reasoning of an answer.
func revealed(t testing.TB, g *gateway.Gateway, key, id string) gateway.Answer {
	t.Helper()
	return g.Do(t, gateway.Call{Path: "/v1/requests/" + id + "/reasoning", Key: key})
}

func mustReveal(t testing.TB, g *gateway.Gateway, key string, of gateway.Answer) {
	t.Helper()
	id := of.Header.Get("X-Request-Id")
	got := revealed(t, g, key, id)
	if got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var r struct {
		RequestID string    `json:"request_id"`
		ExpiresAt time.Time `json:"expires_at"`
		Reasoning attachedReasoning
	}
	got.JSON(t, &r)
	left := time.Until(r.ExpiresAt)
	if r.RequestID != id || r.Reasoning.Content == nil || !strings.Contains(*r.Reasoning.Content, whitby) || left < 8*time.Minute || left > 11*time.Minute {
		t.Errorf("revealed is %s", got.Body)
	}
}

func mustNotReveal(t testing.TB, g *gateway.Gateway, key string, of gateway.Answer) {
	t.Helper()
	got := revealed(t, g, key, of.Header.Get("X-Request-Id"))
	if got.Status != http.StatusNotFound || strings.Contains(got.Body, whitby) || !strings.Contains(got.Body, `"not_found"`) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestD44DiscordRevealsItsReasoning: to the account that asked, and to nobody else; of other surfaces, and of anything that is secret in any
// way, nothing is kept.
func TestD44DiscordRevealsItsReasoning(t *testing.T) {
	t.Parallel()
	vault := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "vault"})
	vault.Behave(thoughtful)
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "vault", Fake: vault, Models: []gateway.Model{{ID: "m", More: "capabilities: [tee_attested]"}}, More: "private: true"},
	}})
	other := g.CreateKey(t, "--name", "other")
	ask := func(t *testing.T, stream bool, header ...string) gateway.Answer {
		t.Helper()
		call := surfaceClients[0].ask("m", stream, "")
		call.Header = header
		got := g.Do(t, call)
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		return got
	}
	for _, stream := range []bool{false, true} {
		got := ask(t, stream, "X-Bardo-Surface: discord")
		mustReveal(t, g, g.Key, got)
		mustReveal(t, g, g.Key, got) // as often as somebody looks
		mustNotReveal(t, g, other.Key, got)
		if nobody := g.Do(t, gateway.Call{Path: "/v1/requests/" + got.Header.Get("X-Request-Id") + "/reasoning", NoKey: true}); nobody.Status != http.StatusUnauthorized {
			t.Errorf("without a key: %d %s", nobody.Status, nobody.Body)
		}
		for _, header := range [][]string{
			nil,
			{"X-Bardo-Surface: telegram"},
			{"X-Bardo-Surface: web"},
			{"X-Bardo-Reasoning: full"},
			{"X-Bardo-Surface: discord", "X-Bardo-Security-Class: confidential"},
			{"X-Bardo-Surface: discord", "X-Bardo-Security-Class: private"},
			{"X-Bardo-Surface: discord", "X-Bardo-Privacy-Tier: private"},
			{"X-Bardo-Surface: discord", "X-Bardo-Privacy-Tier: tee", "X-Bardo-Task-Class: testament"},
			{"X-Bardo-Surface: discord", "X-Bardo-Tee: true", "X-Bardo-Task-Class: testament"},
			{"X-Bardo-Surface: discord", "X-Bardo-Task-Class: incident"},
			{"X-Bardo-Surface: discord", "X-Bardo-Require: privacy"},
			{"X-Bardo-Surface: discord", "X-Bardo-Prefer: no_log"},
			{"X-Bardo-Surface: discord", "X-Bardo-Subsystem: dream"},
		} {
			t.Run(fmt.Sprintf("stream=%v %s", stream, strings.Join(header, ", ")), func(t *testing.T) {
				mustNotReveal(t, g, g.Key, ask(t, stream, header...))
			})
		}
	}
	vault.Behave(fake.Behaviour{Text: "At nine."})
	mustNotReveal(t, g, g.Key, ask(t, false, "X-Bardo-Surface: discord")) // there was no reasoning
	t.Run("other methods", func(t *testing.T) {
		got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/requests/req_x/reasoning"})
		if got.Status != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%d %q %s", got.Status, got.Header.Get("Allow"), got.Body)
		}
	})
}

// TestD44NothingIsKeptForNobody: callers without an account have nobody's answers to look at.
func TestD44NothingIsKeptForNobody(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(thoughtful)
	g := gateway.Run(t, gateway.Options{NoKey: true, Config: quick + "auth: {anonymous: true}\n", Providers: []gateway.Provider{
		{ID: "own", Fake: p, Models: models("m", "")},
	}})
	call := surfaceClients[0].ask("m", false, "")
	call.Header = []string{"X-Bardo-Surface: discord"}
	got := g.Do(t, call)
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	mustNotReveal(t, g, "", got)
}

// TestHiddenThoughtsLeaveToolTurnsWorking: a chat's history has no thoughts. The provider that wants them in the middle of a turn with tools
// is asked without thinking for the rest of that turn.
func TestHiddenThoughtsLeaveToolTurnsWorking(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Signer: "s"})
	b := thoughtful
	b.Text, b.ToolCalls, b.Answered = "", []fake.ToolCall{{ID: "toolu_1", Name: "look", Args: `{"at":"sea"}`}}, &thoughtful
	p.Behave(b)
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{anthropicCustom("own", p, "claude-x")}})
	const tool = `"tools":[{"name":"look","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":1024},"max_tokens":4000`
	const asked = `{"role":"user","content":"when?"}`
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			body := fmt.Sprintf(`{"model":"claude-x","stream":%v,%s,"messages":[%s]}`, stream, tool, asked)
			got := g.Messages(t, body, "X-Bardo-Surface: telegram")
			if got.Status != http.StatusOK || strings.Contains(got.Body, whitby) || strings.Contains(got.Body, "signature") {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			if stream {
				anthropicStream(t, got)
				if !strings.Contains(got.Body, `"type":"content_block_start","index":0,"content_block":{"type":"tool_use"`) {
					t.Errorf("the call is not the first block: %s", got.Body)
				}
			}
			if !strings.Contains(got.Body, `"stop_reason":"tool_use"`) || !strings.Contains(got.Body, `"toolu_1"`) {
				t.Errorf("no call in %s", got.Body)
			}
			body = fmt.Sprintf(`{"model":"claude-x","stream":%v,%s,"messages":[%s,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"look","input":{"at":"sea"}}]},`+
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"waves"}]}]}`, stream, tool, asked)
			got = g.Messages(t, body, "X-Bardo-Surface: telegram")
			if said := text(t, ask{dialect: fake.Anthropic, stream: stream}, got); said != "At nine." || got.Status != http.StatusOK {
				t.Errorf("%d %q: %s", got.Status, said, got.Body)
			}
			if strings.Contains(got.Body, whitby) {
				t.Errorf("the thoughts are in %s", got.Body)
			}
		})
	}
}

// TestATerminalHearsThatTheModelThinks: while it does, and not only once it answers.
func TestATerminalHearsThatTheModelThinks(t *testing.T) {
	t.Parallel()
	g, fakes := surfacesLab(t, "")
	b := thoughtful
	b.Thoughts, b.Gap = []fake.Thought{{Text: strings.Repeat("I look at the sea. ", 10)}}, 30*time.Millisecond
	for _, f := range fakes {
		f.Behave(b)
	}
	for _, c := range surfaceClients[:3] {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), polltest.Patience)
			defer cancel()
			call := c.ask("claude-like", true, "")
			call.Header = append(call.Header, "X-Bardo-Surface: tui")
			resp, err := g.Open(ctx, call)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			r := gateway.NewReader(resp.Body)
			told, answered := 0, false
			for {
				ev, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(ev.Comment, "thinking… ") {
					if told++; answered {
						t.Errorf("it thinks after it answered: %q", ev.Comment)
					}
				}
				answered = answered || strings.Contains(ev.Data, "nine")
			}
			if told < 2 || !answered { // at once, and a second later
				t.Errorf("told %d times, answered %v", told, answered)
			}
		})
	}
}

// TestATerminalHearsOfThoughtsBehindAnAnswerThatIsHeld: from the first heartbeat on, and no more once the answer is there.
func TestATerminalHearsOfThoughtsBehindAnAnswerThatIsHeld(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := beating(t, "5s", gateway.Provider{ID: "p", Fake: p, Format: "anthropic", Models: []gateway.Model{{ID: "m", More: "max_output: 8000, capabilities: [tools]"}}})
	for _, client := range shapers {
		t.Run(string(client), func(t *testing.T) {
			p.Queue(fake.Behaviour{Thoughts: []fake.Thought{{Text: strings.Repeat("I look at the sea. ", 20)}}, Gap: 30 * time.Millisecond})
			got := g.Do(t, client.call("m", true, "hi from "+string(client), "", observer, "X-Bardo-Surface: tui"))
			if said := client.text(t, got, true); !strings.Contains(said, `"verdict"`) {
				t.Errorf("the agent reads %q", said)
			}
			before, after, _ := strings.Cut(got.Body, "verdict")
			told, late := strings.Count(before, ": thinking… "), strings.Count(after, ": thinking… ")
			if client == "gemini" { // its clients read no comments
				if told > 0 || late > 0 {
					t.Errorf("told %d times: %s", told, got.Body)
				}
				return
			}
			if told < 2 || late > 0 || !strings.Contains(before, " tokens\n") || strings.Contains(before, "thinking… 0s\n") {
				t.Errorf("told %d times, and %d times once it answered: %s", told, late, got.Body)
			}
		})
	}
}

var surfaceCases = []struct {
	client                                int
	model, subsystem, surface, visibility string
}{
	{0, "openai-like", "operator", "", "visible"},
	{0, "openai-like", "", "discord", "visible"},
	{1, "openai-like", "", "telegram", "visible"},
	{2, "responses-like", "", "tui", "summarized"},
	{3, "gemini-like", "", "api", "summarized"},
	{0, "gemini-like", "", "web", "opaque"},
	{0, "gemini-like", "operator", "telegram", "summarized"}, // its profile asks to see thoughts
}

type captured struct {
	RequestID   string `json:"request_id"`
	Subsystem   string `json:"subsystem"`
	Provider    string `json:"provider"`
	Model       string `json:"model"`
	Visibility  string `json:"visibility"`
	Tokens      int64  `json:"reasoning_tokens"`
	Estimated   bool   `json:"estimated"`
	Interleaved bool   `json:"interleaved"`
	Surface     string `json:"surface"`
}

// reasoningEvents are the events of reasoning in a file, by request.
func reasoningEvents(t *testing.T, file []byte) map[string]captured {
	t.Helper()
	told := map[string]captured{}
	for line := range bytes.Lines(file) {
		var e struct {
			Event string
			Data  json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Event != "inference:reasoning_captured" {
			continue
		}
		var c captured
		if err := json.Unmarshal(e.Data, &c); err != nil {
			t.Fatal(err)
		}
		told[c.RequestID] = c
	}
	return told
}

// TestReasoningIsToldAndNeverLeaks: the event tells of tokens; no log, event, record or list has a word of the thoughts.
func TestReasoningIsToldAndNeverLeaks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	g, fakes := surfacesLab(t, fmt.Sprintf("telemetry: {events: \"file:%s\", log_level: debug}\n", file))
	want := map[string]captured{}
	for _, row := range surfaceCases {
		for _, stream := range []bool{false, true} {
			call := surfaceClients[row.client].ask(row.model, stream, "")
			if row.subsystem != "" {
				call.Header = append(call.Header, "X-Bardo-Subsystem: "+row.subsystem)
			}
			if row.surface != "" {
				call.Header = append(call.Header, "X-Bardo-Surface: "+row.surface)
			}
			got := g.Do(t, call)
			if got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			id := got.Header.Get("X-Request-Id")
			want[id] = captured{id, row.subsystem, row.model, row.model, row.visibility, 40, false, false, cmp.Or(row.surface, "api")}
			rec := g.Do(t, gateway.Call{Path: "/v1/requests/" + id})
			if strings.Contains(rec.Body, whitby) {
				t.Errorf("the record has the thoughts: %s", rec.Body)
			}
		}
	}
	fakes["openai-like"].Behave(fake.Behaviour{Text: "At nine."})
	silent := g.Do(t, surfaceClients[0].ask("openai-like", false, ""))
	var all []byte
	var told map[string]captured
	eventually(t, "the events", func() bool {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(b, []byte(silent.Header.Get("X-Request-Id"))) {
			return false
		}
		all, told = b, reasoningEvents(t, b)
		return len(told) >= len(want)
	})
	if !maps.Equal(told, want) {
		t.Errorf("told is %+v, want %+v", told, want)
	}
	checkNoThoughts(t, g, all)
}

// checkNoThoughts looks for words of the thoughts in the events, the log, the list of stored answers, and every file of the gateway.
func checkNoThoughts(t *testing.T, g *gateway.Gateway, events []byte) {
	t.Helper()
	places := map[string]string{"the events": string(events), "the log": g.Log(), "the cache's list": g.Do(t, gateway.Call{Path: "/v1/cache"}).Body}
	if err := filepath.WalkDir(g.Home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // a file that was removed meanwhile
		}
		b, err := os.ReadFile(path)
		places[path] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for place, text := range places {
		if strings.Contains(text, whitby) {
			t.Errorf("%s has a word of the thoughts", place)
		}
	}
	if places["the log"] == "" {
		t.Error("there is no log to look at")
	}
}
