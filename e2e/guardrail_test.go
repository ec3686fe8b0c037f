package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy"
)

// hook is a service of an operator's, which records every byte that it gets.
type hook struct {
	*httptest.Server

	mu    sync.Mutex
	got   []string
	token []string
	says  func(question map[string]any) string
	wait  time.Duration
	gone  int // calls whose caller went away
}

// left is how many callers went away before they had an answer.
func (h *hook) left() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone
}

// newHook is a hook that allows everything.
func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{says: func(map[string]any) string { return `{"action":"allow"}` }}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var q map[string]any
		_ = json.Unmarshal(b, &q)
		h.mu.Lock()
		h.got, h.token = append(h.got, string(b)), append(h.token, r.Header.Get("Authorization"))
		says, wait := h.says, h.wait
		h.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			h.mu.Lock()
			h.gone++
			h.mu.Unlock()
		}
		_, _ = io.WriteString(w, says(q))
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) questions() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// answers sets what it says from now on, and forgets what it got.
func (h *hook) answers(says string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got, h.says = nil, func(map[string]any) string { return says }
}

// decides sets how it answers from now on.
func (h *hook) decides(says func(map[string]any) string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.says = says
}

// textsIn are the texts of a question, by index.
func textsIn(q map[string]any) (out []string) {
	list, _ := q["texts"].([]any)
	for _, e := range list {
		m, _ := e.(map[string]any)
		s, _ := m["text"].(string)
		out = append(out, s)
	}
	return out
}

// secretWord is the word of the questions that hooks look for.
const secretWord = "MARZIPAN"

// replacing answers with the texts that have the word of the questions, the word replaced.
func replacing(by string) func(map[string]any) string {
	return func(q map[string]any) string {
		var texts []string
		for i, s := range textsIn(q) {
			if strings.Contains(s, secretWord) {
				b, _ := json.Marshal(strings.ReplaceAll(s, secretWord, by))
				texts = append(texts, fmt.Sprintf(`{"index":%d,"text":%s}`, i, b))
			}
		}
		return `{"action":"replace","reason":"dlp","texts":[` + strings.Join(texts, ",") + `]}`
	}
}

// TestB08AHookLooksAtRequests: it allows, refuses with its own words, and replaces texts, in every format.
func TestB08AHookLooksAtRequests(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	g, at := guarded(t, fmt.Sprintf("pipeline: {guardrails: [{name: dlp, url: %q, token: hook-token, when: [request]}]}\n", h.URL+"/check?"[:6]))
	for _, a := range guardedAsks() {
		p := at[a.model]
		p.Forget()
		h.answers(`{"action":"allow","reason":"clean"}`)
		if got := g.Do(t, a.call("", "X-Bardo-Subsystem: risk")); got.Status != http.StatusOK || len(p.Generations()) != 1 {
			t.Fatalf("%s, allowed: %d %s", a, got.Status, got.Body)
		} else if !a.stream && got.Header.Get("X-Bardo-Guardrails") != "dlp-request-allowed=1" {
			t.Errorf("%s: %v", a, got.Header)
		}
		var q struct {
			Version                                        int
			ID, Hook, Direction, Dialect, Subsystem, Model string
			Stream                                         bool
			Texts                                          []struct{ Role, Kind, Text string }
		}
		if err := json.Unmarshal([]byte(h.questions()[0]), &q); err != nil || q.Version != 1 || !strings.HasPrefix(q.ID, "req_") || q.Hook != "dlp" || q.Direction != "request" || q.Dialect != string(a.dialect) || q.Subsystem != "risk" || q.Stream != a.stream {
			t.Errorf("%s: the hook gets %s, %v", a, h.questions()[0], err)
		}
		if !slices.ContainsFunc(q.Texts, func(x struct{ Role, Kind, Text string }) bool {
			return x.Role == "user" && x.Kind == "user" && x.Text == "the secret is MARZIPAN"
		}) {
			t.Errorf("%s: the texts are %+v", a, q.Texts)
		}
		p.Forget()
		h.answers(`{"action":"refuse","message":"no sweets","reason":"sweets"}`)
		got := g.Do(t, a.call(""))
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"guardrail_refused"`) || !strings.Contains(got.Body, "no sweets") || len(p.Generations()) != 0 {
			t.Errorf("%s, refused: %d %s, after %d calls", a, got.Status, got.Body, len(p.Generations()))
		}
		if tags := decisionsOf(t, g, got); !slices.Equal(tags, []policy.Tag{{By: "guardrail", Rule: "dlp", Stage: policy.StageRequest, Decision: "refused", Reason: "sweets"}}) {
			t.Errorf("%s, refused: the record has %+v", a, tags)
		}
		h.mu.Lock()
		h.says = replacing("NOUGAT")
		h.mu.Unlock()
		got = g.Do(t, a.call(""))
		if got.Status != http.StatusOK || len(p.Generations()) != 1 || strings.Contains(string(p.Generations()[0].Body), "MARZIPAN") || !strings.Contains(string(p.Generations()[0].Body), "the secret is NOUGAT") {
			t.Errorf("%s, replaced: %d, the provider gets %s", a, got.Status, p.Generations()[0].Body)
		}
	}
	if h.token[0] != "Bearer hook-token" || strings.Contains(g.Log(), "MARZIPAN") || strings.Contains(g.Log(), "no sweets") || strings.Contains(g.Log(), "hook-token") {
		t.Errorf("token %q, the log has content", h.token[0])
	}
}

// TestB08AHookLooksAtAnswers: nothing is sent before it has seen the whole answer; a refusal is an error with a status, also of a stream; a replacement is in the
// client's format.
func TestB08AHookLooksAtAnswers(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	g, at := guarded(t, fmt.Sprintf("pipeline: {hash: all, guardrails: [{name: out, url: %q, when: [response]}]}\n", h.URL))
	for _, p := range at {
		p.Behave(fake.Behaviour{Text: "It is MARZIPAN, of course.", ToolCalls: []fake.ToolCall{{Name: "transfer", Args: `{"usd":5,"of":"MARZIPAN"}`, Pieces: 5}}})
	}
	for i, a := range guardedAsks() {
		for _, cached := range []bool{false, true} {
			more := fmt.Sprintf(`,"temperature":0.%d`, i%7) // its own place in the cache
			about := fmt.Sprintf("%s, cached %v", a, cached)
			h.answers(`{"action":"refuse","message":"no sweets"}`)
			got := g.Do(t, a.call(more, "X-Bardo-Replay: fast"))
			if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"guardrail_refused"`) || !strings.Contains(got.Body, "no sweets") || strings.Contains(got.Body, "MARZIPAN") {
				t.Errorf("%s, refused: %d %s", about, got.Status, got.Body)
			}
			q := h.questions()
			if len(q) != 1 || !strings.Contains(q[0], `"direction":"response"`) || !strings.Contains(q[0], "It is MARZIPAN, of course.") || !strings.Contains(q[0], `"kind":"arguments","tool":"transfer"`) {
				t.Errorf("%s: the hook gets %q", about, q)
			}
			h.mu.Lock()
			h.says = replacing("NOUGAT")
			h.mu.Unlock()
			got = g.Do(t, a.call(more, "X-Bardo-Replay: fast"))
			parsed := parseAnswer(t, a, got)
			if got.Status != http.StatusOK || parsed.text != "It is NOUGAT, of course." || !slices.Equal(parsed.calls, []string{`transfer{"usd":5,"of":"NOUGAT"}`}) || parsed.reason != chat.StopTool || strings.Contains(got.Body, "MARZIPAN") {
				t.Errorf("%s, replaced: %d %+v\n%s", about, got.Status, parsed, got.Body)
			}
			h.answers(`{"action":"allow"}`)
			got = g.Do(t, a.call(more, "X-Bardo-Replay: fast"))
			if parsed = parseAnswer(t, a, got); parsed.text != "It is MARZIPAN, of course." || len(parsed.calls) != 1 {
				t.Errorf("%s, allowed: %d %+v", about, got.Status, parsed)
			}
		}
	}
}

// TestB08AHookThatIsDownRefusesOrAllows: by its own choice, whatever is wrong with it, and its time is bounded.
func TestB08AHookThatIsDownRefusesOrAllows(t *testing.T) {
	t.Parallel()
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	slow, odd, wordy := newHook(t), newHook(t), newHook(t)
	slow.wait = time.Minute
	odd.answers(`{"action":"perhaps"}`)
	wordy.answers(`{"action":"allow","message":"` + strings.Repeat("x", 3000) + `"}`)
	for about, row := range map[string]struct{ url, more, why string }{
		"nobody listens":    {"http://" + proctest.Nobody(t), "", "unreachable"},
		"an error":          {missing.URL, "", "bad_status"},
		"silence":           {slow.URL, ", timeout: 200ms", "timeout"},
		"another word":      {odd.URL, "", "bad_answer"},
		"too long a word":   {wordy.URL, ", max_bytes: 2048", "answer_too_large"},
		"too long a prompt": {odd.URL, ", max_bytes: 1024", "too_large"},
	} {
		for _, onError := range []string{"refuse", "allow"} {
			t.Run(about+", "+onError, func(t *testing.T) {
				t.Parallel()
				g, at := guarded(t, fmt.Sprintf("pipeline: {guardrails: [{name: dlp, url: %q, when: [request, response], on_error: %s%s}]}\n", row.url, onError, row.more))
				c := guardedAsk{chat.Anthropic, "m", true}.call(fmt.Sprintf(`,"system":%q`, strings.Repeat("word ", 100)))
				if row.why == "answer_too_large" {
					c = guardedAsk{chat.Anthropic, "m", true}.call("")
				}
				began := time.Now()
				got := g.Do(t, c)
				tags := decisionsOf(t, g, got)
				if len(tags) == 0 || tags[0].Decision != "failed" || tags[0].Reason != row.why || time.Since(began) > 20*time.Second {
					t.Errorf("after %s the record has %+v", time.Since(began), tags)
				}
				if onError == "allow" {
					if got.Status != http.StatusOK || len(tags) != 2 && row.why != "too_large" || parseAnswer(t, guardedAsk{chat.Anthropic, "m", true}, got).text != "I look." {
						t.Errorf("%d %s, %+v", got.Status, got.Body, tags)
					}
					return
				}
				if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"guardrail_unavailable"`) || len(at["m"].Generations()) != 0 {
					t.Errorf("%d %s, after %d calls", got.Status, got.Body, len(at["m"].Generations()))
				}
			})
		}
	}
}

// TestB08AHookInShadowIsHeardAndNotObeyed: nothing changes, and the record has what it would have done.
func TestB08AHookInShadowIsHeardAndNotObeyed(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	g, at := guarded(t, fmt.Sprintf("pipeline: {guardrails: [{name: dlp, url: %q, when: [request, response], shadow: true}]}\n", h.URL))
	for says, want := range map[string]string{
		`{"action":"refuse"}`: "shadow-dlp-request-refused=1, shadow-dlp-response-refused=1",
		`{"action":"replace","texts":[{"index":0,"text":"x"}]}`: "shadow-dlp-request-replaced=1, shadow-dlp-response-replaced=1",
		`nonsense`: "shadow-dlp-request-failed=1, shadow-dlp-response-failed=1",
	} {
		h.answers(says)
		at["m"].Forget()
		got := g.Do(t, guardedAsk{chat.OpenAI, "m", false}.call(""))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Guardrails") != want || !strings.Contains(string(at["m"].Generations()[0].Body), "MARZIPAN") || !strings.Contains(got.Body, "I look.") {
			t.Errorf("%s: %d %v %s", says, got.Status, got.Header, got.Body)
		}
	}
}

// TestD05APrivateRequestReachesNoHookThatIsNotPrivate: the hook sees no byte of it. It is left out where it may be, else the request is refused.
func TestD05APrivateRequestReachesNoHookThatIsNotPrivate(t *testing.T) {
	t.Parallel()
	public, optional, private := newHook(t), newHook(t), newHook(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	const providers = "\nproviders: {custom: [{id: own, endpoints: [%q], api_key: sk-o, private: true, models: [{id: m}]}]}\n"
	lenient := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("pipeline: {guardrails: [{name: optional, url: %q, when: [request, response], on_error: allow}, {name: own, url: %q, when: [request, response], private: true}]}"+providers, optional.URL, private.URL, p.URL)})
	strict := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("pipeline: {guardrails: [{name: public, url: %q, when: [request]}]}"+providers, public.URL, p.URL)})
	ask := guardedAsk{chat.OpenAI, "m", false}
	got := lenient.Do(t, ask.call("", "X-Bardo-Security-Class: private"))
	if got.Status != http.StatusOK || len(optional.questions()) != 0 || len(private.questions()) != 2 || !strings.Contains(private.questions()[0], "MARZIPAN") {
		t.Errorf("%d %s: the hooks get %q and %q", got.Status, got.Body, optional.questions(), private.questions())
	}
	if said := got.Header.Get("X-Bardo-Guardrails"); !strings.Contains(said, "optional-request-skipped=1") || !strings.Contains(said, "optional-response-skipped=1") || !strings.Contains(said, "own-request-allowed=1") {
		t.Errorf("X-Bardo-Guardrails: %q", said)
	}
	p.Forget()
	got = strict.Do(t, ask.call("", "X-Bardo-Security-Class: private"))
	if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"guardrail_refused"`) || !strings.Contains(got.Body, "private: true") || len(public.questions()) != 0 || len(p.Generations()) != 0 {
		t.Errorf("%d %s: the hook gets %q", got.Status, got.Body, public.questions())
	}
	if got = strict.Do(t, ask.call("")); got.Status != http.StatusOK || len(public.questions()) != 1 {
		t.Errorf("a request that is not private: %d %s", got.Status, got.Body)
	}
}

// TestD05AHookSeesWhatAProviderSees: personal data of a confidential request is masked for it, too.
func TestD05AHookSeesWhatAProviderSees(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	g, at := guarded(t, fmt.Sprintf("pipeline: {guardrails: [{name: dlp, url: %q, when: [request, response]}]}\n", h.URL))
	c := guardedAsk{chat.OpenAI, "m", true}.call("", "X-Bardo-Security-Class: confidential")
	c.Body = strings.Replace(c.Body, "MARZIPAN", "john@example.com", 1)
	got := g.Do(t, c)
	if got.Status != http.StatusOK || len(h.questions()) != 2 || strings.Contains(h.questions()[0], "john@") || strings.Contains(string(at["m"].Generations()[0].Body), "john@") || !strings.Contains(h.questions()[0], "EMAIL_") {
		t.Errorf("%d %s: the hook gets %q", got.Status, got.Body, h.questions())
	}
}

// TestB08HooksSeeEveryGeneration: also requests of the legacy API, whose prompts are sent as they are, and those with the user's own provider key.
func TestB08HooksSeeEveryGeneration(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
pipeline:
  guardrails: [{name: dlp, url: %q, when: [request, response]}]
  firewall: {rules: [{id: none, deny: [transfer]}]}
providers:
  custom: [{id: own, endpoints: [%q], api_key: sk-o, completions: true, models: [{id: m}]}]
  direct: {keys: [{provider: openai, api_key: sk-o, base_url: %q, models: [gpt-4o]}]}
`, h.URL, p.URL, p.URL)})
	h.answers(`{"action":"allow"}`)
	h.mu.Lock()
	h.says = replacing("NOUGAT")
	h.mu.Unlock()
	got := g.Do(t, gateway.Call{Path: "/v1/completions", Body: `{"model":"m","prompt":"the secret is MARZIPAN"}`})
	if got.Status != http.StatusOK || len(h.questions()) != 2 || !strings.Contains(string(p.Generations()[0].Body), "NOUGAT") {
		t.Errorf("completions: %d %s, the hook gets %q", got.Status, got.Body, h.questions())
	}
	p.Forget()
	h.answers(`{"action":"allow"}`)
	p.Behave(twoCalls)
	a := guardedAsk{chat.OpenAI, "direct/openai/gpt-4o", true}
	got = g.Do(t, a.call(""))
	if len(p.Generations()) != 1 {
		t.Fatalf("a direct key: %d %s", got.Status, got.Body)
	}
	if parsed := parseAnswer(t, a, got); got.Status != http.StatusOK || len(h.questions()) != 2 || strings.Contains(string(p.Generations()[0].Body), "transfer") || !slices.Equal(parsed.calls, []string{price}) {
		t.Errorf("a direct key: %d %+v, the hook gets %d questions, the provider %s", got.Status, parsed, len(h.questions()), p.Generations()[0].Body)
	}
}

// TestB08HooksSeeWhateverCarriesText: embeddings, ranking, moderation, speech and the fields of forms are looked at, and what a hook replaces no provider gets.
func TestB08HooksSeeWhateverCarriesText(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
pipeline: {guardrails: [{name: dlp, url: %q, when: [request, response]}]}
providers:
  openai: {api_key: %s, base_url: %q}
  together: {api_key: %s, base_url: %q}
`, h.URL, p.Key, p.URL, p.Key, p.URL)})
	h.answers(`{"action":"allow"}`)
	for name, c := range map[string]gateway.Call{
		"embeddings":      modalityCall(t, "/v1/embeddings", `{"model":"text-embedding-3-small","input":"the secret is MARZIPAN"}`),
		"a moderation":    modalityCall(t, "/v1/moderations", `{"model":"omni-moderation-latest","input":"the secret is MARZIPAN"}`),
		"a ranking":       modalityCall(t, "/v1/rerank", `{"model":"Salesforce/Llama-Rank-V1","query":"the secret is MARZIPAN","documents":["a"]}`),
		"speech":          modalityCall(t, "/v1/audio/speech", `{"model":"tts-1","input":"the secret is MARZIPAN","voice":"alloy"}`),
		"a transcription": modalityCall(t, "/v1/audio/transcriptions", "", "file@1", "model=whisper-1", "prompt=the secret is MARZIPAN"),
	} {
		p.Forget()
		h.answers(`{"action":"allow"}`)
		h.decides(replacing("NOUGAT"))
		got := g.Do(t, c)
		sent := string(lastCall(t, p).Body)
		if got.Status != http.StatusOK || len(h.questions()) != 1 || !strings.Contains(h.questions()[0], "MARZIPAN") || strings.Contains(sent, "MARZIPAN") || !strings.Contains(sent, "NOUGAT") {
			t.Errorf("%s: %d %.200s, the hook gets %q, the provider %.500s", name, got.Status, got.Body, h.questions(), sent)
		}
		p.Forget()
		h.answers(`{"action":"refuse","message":"no"}`)
		if got := g.Do(t, c); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"guardrail_refused"`) || len(p.Calls()) != 0 {
			t.Errorf("%s is not refused: %d %.200s", name, got.Status, got.Body)
		}
	}
}
