// Package turns plays long conversations of every client with providers that change from answer to answer, without Envoy and without the
// gateway's process: adapters and dialects alone, in front of the fake providers and their rules.
package turns

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/provider/deepseek"
	"bardo.money/gateway/extproc/provider/google"
	"bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// upstream is a provider, and what it may refuse at first: its words are then about what another one left in the history.
type upstream struct {
	name    string
	config  fake.Config
	adapter provider.Adapter
	to      policy.Resolution
	refuses []string
	signs   bool // its thinking
	only    bool // it is served in Responses alone

	server *fake.Server
}

// upstreams are in front of each conversation. The first four are those that it comes back to.
func upstreams() []*upstream {
	return []*upstream{
		{
			name: "claude with a budget", config: fake.Config{Dialect: fake.Anthropic}, adapter: anthropic.Adapter{}, signs: true,
			to:      policy.Resolution{Family: "claude", Upstream: "claude-sonnet-4-5", Control: policy.ControlBudget, MaxOutput: 64000},
			refuses: []string{"must start with a thinking block"}, // a turn that another one began
		},
		{
			name: "claude that adapts", config: fake.Config{Dialect: fake.Anthropic}, adapter: anthropic.Adapter{}, signs: true,
			to: policy.Resolution{Family: "claude", Upstream: "claude-opus-4-6", AdaptiveThinking: true, MaxOutput: 128000},
		},
		{
			name: "gemini", config: fake.Config{Dialect: fake.Gemini}, adapter: google.Adapter{},
			to:      policy.Resolution{Family: "gemini", Upstream: "gemini-3-pro-preview", Control: policy.ControlLevel, Efforts: []string{"low", "high"}},
			refuses: []string{"missing a thought_signature"}, // of a call that another one made, without thinking
		},
		{
			name: "a model of Responses alone", config: fake.Config{Dialect: fake.OpenAI, Name: "openai"}, adapter: openai.Adapter{}, only: true,
			to: policy.Resolution{Family: "gpt", Upstream: "gpt-5.5-pro", Control: policy.ControlEffort, Efforts: []string{"medium", "high", "xhigh"}, ResponsesOnly: true},
		},
		{
			name: "deepseek", config: fake.Config{Vendor: fake.DeepSeek}, adapter: deepseek.Adapter{},
			to:      policy.Resolution{Family: "deepseek", Upstream: "deepseek-v4-pro", Control: policy.ControlToggle},
			refuses: []string{"reasoning_content"},
		},
		{
			name: "a server of OpenAI's format", config: fake.Config{Dialect: fake.OpenAI, Name: "custom"}, adapter: custom.Adapter{},
			to: policy.Resolution{Family: "qwen", Upstream: "qwen3-32b"}, refuses: []string{"].reasoning"},
		},
		{
			name: "openrouter", config: fake.Config{Vendor: fake.OpenRouter}, adapter: openrouter.Adapter{},
			to: policy.Resolution{Family: "glm", Upstream: "z-ai/glm-4.6"},
		},
	}
}

func start(t testing.TB) []*upstream {
	t.Helper()
	all := upstreams()
	servers := map[string]*fake.Server{} // two models are of one
	for _, u := range all {
		key := fmt.Sprint(u.config)
		if servers[key] == nil {
			servers[key] = fake.Start(t, u.config)
		}
		u.server = servers[key]
	}
	return all
}

// endpoint is where its calls go.
func (u *upstream) endpoint() provider.Endpoint {
	root := "/v1"
	if u.config.Dialect == fake.Gemini {
		root = "/v1beta"
	}
	return provider.Endpoint{BasePath: root, Key: secret.New(u.server.Key), Responses: u.only}
}

// ask sends a request as the gateway does: once, and once more without what the provider refused.
func (u *upstream) ask(t testing.TB, req *chat.Request) []chat.Event {
	t.Helper()
	events := u.attempt(t, req, u.to)
	refusal := events[len(events)-1].Err
	if refusal == nil {
		return events
	}
	to, again := policy.Resolution{}, false
	if a, ok := u.adapter.(provider.Amender); ok {
		to, again = a.Amend(req, u.to, u.endpoint(), refusal)
	}
	expected := slices.ContainsFunc(u.refuses, func(word string) bool { return strings.Contains(refusal.Message+refusal.Param, word) })
	if !again || !expected {
		last, _ := u.server.Last()
		t.Fatalf("%s refused: %s\n%s\nfrom\n%s", u.name, refusal.Message, last.Body, req.Doc.Bytes)
	}
	if events = u.attempt(t, req, to); events[len(events)-1].Err != nil {
		t.Fatalf("%s refused again: %s, after %s\n%s", u.name, events[len(events)-1].Err.Message, refusal.Message, req.Doc.Bytes)
	}
	return events
}

var caller = &http.Client{Timeout: time.Minute}

func (u *upstream) attempt(t testing.TB, req *chat.Request, to policy.Resolution) (events []chat.Event) {
	t.Helper()
	call, err := u.adapter.Encode(nil, req, to, u.endpoint())
	if err != nil {
		t.Fatalf("%s: %v\n%s", u.name, err, req.Doc.Bytes)
	}
	base := strings.TrimSuffix(u.server.URL, u.endpoint().BasePath)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+call.Path, strings.NewReader(string(call.Body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, f := range call.Header {
		r.Header.Set(f.Name, f.Value)
	}
	res, err := caller.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	d := u.adapter.NewDecoder(req, to, u.endpoint(), res.StatusCode, header.List{{Name: "content-type", Value: res.Header.Get("Content-Type")}})
	for _, ev := range d.Decode(body, true) {
		events = append(events, ev.Detached())
	}
	return events
}

// said is one answer of a conversation.
type said struct {
	by   *upstream
	does fake.Behaviour
}

// play has one conversation: a client of one dialect with answers of many providers, back and forth, and in the end of the first.
func play(t testing.TB, all []*upstream, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 6))
	c := newClient(clients[r.IntN(len(clients))], r.IntN(2) == 0)
	home := all[r.IntN(4)]
	var history []said
	c.user(r, fmt.Sprintf("question %d", seed))
	for i, rounds := 0, 3+r.IntN(8); i < rounds; i++ {
		by := home
		if i > 0 && i < rounds-1 && r.IntN(2) == 0 {
			by = all[r.IntN(len(all))]
		}
		does := behaviour(r, fmt.Sprintf("%d.%d", seed, i))
		by.server.QueueFor(by.to.Upstream, does)
		by.server.QueueFor(by.to.Upstream, does) // where it is asked twice
		by.server.Forget()
		req := c.request(t, by)
		events := by.ask(t, req)
		by.server.Behave(fake.Behaviour{}) // forgets what was not played
		switch {
		case by.signs:
			check(t, by, history, c)
		case by.config.Dialect == fake.Gemini:
			checkSignatures(t, by, history, c)
		case by.only:
			checkSealed(t, by, history, c)
		}
		history = append(history, said{by: by, does: does})
		c.read(t, events, by.adapter.Dialect(by.to, by.endpoint(), c.dialect))
		if len(does.ToolCalls) > 0 {
			c.results(r)
		} else {
			c.user(r, fmt.Sprintf("question %d.%d", seed, i))
		}
	}
}

// behaviour makes an answer up: thoughts, redacted ones too, text, thoughts between, and calls.
func behaviour(r *rand.Rand, name string) (b fake.Behaviour) {
	maybe := func() bool { return r.IntN(2) == 0 }
	if r.IntN(4) > 0 {
		b.Thoughts = append(b.Thoughts, fake.Thought{Text: "first " + name + " — naïve 🦊"})
		if maybe() {
			b.Thoughts = append(b.Thoughts, fake.Thought{Data: "c2VjcmV0" + strings.NewReplacer(".", "").Replace(name) + "="})
		}
	}
	if maybe() {
		b.Text = "Let me see — " + name + "."
	}
	if calls := r.IntN(3); calls > 0 {
		for i := range calls {
			b.ToolCalls = append(b.ToolCalls, fake.ToolCall{Name: "look", Args: fmt.Sprintf(`{"at":%d}`, i), Pieces: 1 + r.IntN(3)})
		}
		if maybe() && len(b.Thoughts) > 0 && b.Text != "" {
			b.Between = append(b.Between, fake.Thought{Text: "between " + name})
		}
	}
	return b
}

// check looks at what a provider that signs was asked at last: of the answers before it is all there that this maker's models gave, in
// its order, and no thinking of others.
func check(t testing.TB, by *upstream, history []said, c *client) {
	t.Helper()
	last, _ := by.server.Last()
	got := outlines(t, last.Body)
	off := !strings.Contains(string(last.Body), `"thinking":{"type":"`)
	if len(got) != len(history) {
		t.Fatalf("%s: %d answers in the history, want %d\n%s\n%s", c.dialect, len(got), len(history), last.Body, c.history())
	}
	for i, s := range history {
		want := s.outline()
		if off {
			want = slices.DeleteFunc(want, isThought)
			got[i] = slices.DeleteFunc(got[i], isThought)
		}
		if !slices.Equal(got[i], want) {
			t.Fatalf("%s, stream=%v: answer %d of %s went to %s as\n%q\nwant\n%q\n%s\n%s", c.dialect, c.stream, i, s.by.name, by.name, got[i], want, last.Body, c.history())
		}
	}
}

// checkSignatures looks for the signatures that Gemini gave its answers, unless it was asked without any.
func checkSignatures(t testing.TB, by *upstream, history []said, c *client) {
	t.Helper()
	asked := by.server.Generations()
	for i, s := range history {
		if s.by != by || len(s.does.Thoughts) == 0 || len(asked) > 1 {
			continue
		}
		if !strings.Contains(string(asked[0].Body), fake.GeminiSignature(s.does.Thoughts[0].Text)) {
			t.Fatalf("%s, stream=%v: the signature of answer %d is lost\n%s\n%s", c.dialect, c.stream, i, asked[0].Body, c.history())
		}
	}
}

// checkSealed counts what a model of Responses encrypted: all of it comes back, and nothing else.
func checkSealed(t testing.TB, by *upstream, history []said, c *client) {
	t.Helper()
	last, _ := by.server.Last()
	want := 0
	for _, s := range history {
		if s.by == by {
			want += len(s.does.Thoughts) + len(s.does.Between)
		}
	}
	if got := strings.Count(string(last.Body), `"encrypted_content":"`); got != want {
		t.Fatalf("%s, stream=%v: %d items of reasoning came back, want %d\n%s\n%s", c.dialect, c.stream, got, want, last.Body, c.history())
	}
}

func isThought(part string) bool {
	return strings.HasPrefix(part, "thinking") || strings.HasPrefix(part, "redacted")
}

// outline is what of an answer goes back to Claude.
func (s *said) outline() (parts []string) {
	think := func(thoughts []fake.Thought) {
		for _, thought := range thoughts {
			switch {
			case !s.by.signs:
			case thought.Data != "":
				parts = append(parts, "redacted "+thought.Data)
			default:
				parts = append(parts, "thinking "+thought.Text+" "+fake.Sign(thought.Text))
			}
		}
	}
	think(s.does.Thoughts)
	text := s.does.Text
	if text == "" && len(s.does.ToolCalls) == 0 {
		text = "Hello from the fake provider."
	}
	if text != "" {
		parts = append(parts, "text "+text)
	}
	think(s.does.Between)
	for _, call := range s.does.ToolCalls {
		parts = append(parts, "call "+call.Args)
	}
	return parts
}

// TestK14K15K16NothingIsLostOnTheWayBack: whatever providers a conversation goes through, each is asked what it takes, and the maker of
// signed thinking has all of it back.
func TestK14K15K16NothingIsLostOnTheWayBack(t *testing.T) {
	t.Parallel()
	all := start(t)
	for seed := range uint64(80) {
		play(t, all, seed)
	}
}

// FuzzConversations is the same for any seed.
func FuzzConversations(f *testing.F) {
	all := start(f)
	f.Add(uint64(1000))
	f.Add(uint64(1215)) // thinking that OpenAI's models encrypted, at Gemini, from a client of Gemini's format
	f.Fuzz(func(t *testing.T, seed uint64) { play(t, all, seed) })
}
