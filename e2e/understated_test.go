package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestMediaAnywhereIsReserved: images and documents count wherever a format has a place for them, and so does a predicted answer, which is
// billed as output where the model writes another one. A key that could not pay for them is refused.
func TestMediaAnywhereIsReserved(t *testing.T) {
	t.Parallel()
	formats := []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini}
	fakes, providers := make(map[fake.Dialect]*fake.Server), []gateway.Provider(nil)
	for _, d := range formats {
		fakes[d] = fake.Start(t, fake.Config{Dialect: d})
		providers = append(providers, gateway.Provider{ID: "my-" + string(d), Fake: fakes[d], Format: string(d), Models: []gateway.Model{
			{ID: string(d), Price: "{input: 1, output: 1}"}, {ID: "output-" + string(d), Price: "{input: 0, output: 1}"},
		}})
	}
	providers = append(providers, gateway.Provider{ID: "openai", Fake: fakes[fake.OpenAI]})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: providers})
	const image = `{"type":"image","source":{"type":"url","url":"https://a/b"}}`
	for name, c := range map[string]gateway.Call{
		"images in a document": anthropicAbout("anthropic", `{"type":"document","source":{"type":"content","content":[`+image+`,`+image+`,`+image+`]}}`),
		"a document in a function's response": {Path: geminiPath("gemini", false), Body: `{"contents":[{"role":"user","parts":[{"text":"x"}]},` +
			`{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{},` +
			`"parts":[{"fileData":{"mimeType":"application/pdf","fileUri":"https://a/b"}}]}}]}]}`},
		"screenshots": {Path: "/v1/responses", Body: `{"model":"gpt-4o","max_output_tokens":16,"input":[{"role":"user","content":"x"}` +
			strings.Repeat(`,{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"https://a/b"}}`, 3) + `]}`},
		"images without a type": openAIAbout("openai", strings.TrimSuffix(strings.Repeat(`{"image_url":"https://a/b"},`, 3), ","), false),
		"a predicted answer": {Path: "/v1/chat/completions", Body: `{"model":"output-openai","messages":[{"role":"user","content":"x"}],` +
			`"prediction":{"type":"content","content":"` + strings.Repeat("a", 60_000) + `"}}`},
	} {
		c.Key = g.CreateKey(t, "--name", "k", "--balance-usd", "0.02").Key
		if got := g.Do(t, c); got.Status != http.StatusPaymentRequired {
			t.Errorf("%s: %d %.200s", name, got.Status, got.Body)
		}
	}
	for d, p := range fakes {
		if n := len(p.Generations()); n != 0 {
			t.Errorf("%s: %d requests came to the provider", d, n)
		}
	}
	g.AssertSound(t)
}

// TestTextAmongTokensIsPaidFor: in the place of a token's number a server may take a text of any length, and an object that names an image.
// They count for what they are.
func TestTextAmongTokensIsPaidFor(t *testing.T) {
	t.Parallel()
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"m","usage":{"prompt_tokens":5000,"total_tokens":5000}}`)
	}))
	t.Cleanup(p.Close)
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", BaseURL: p.URL + "/v1", Key: "sk-p", Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 0}", More: "capabilities: [embeddings]"}}},
	}})
	rich := g.CreateKey(t, "--name", "rich", "--balance-usd", "10").Key
	text := `"` + strings.Repeat("word ", 4000) + `"`
	for name, input := range map[string]string{
		"behind a number":         `[1,` + text + `]`,
		"in a list of tokens":     `[[` + text + `]]`,
		"deeper":                  `[1,[` + text + `]]`,
		"an object with a number": `[1,{"text":` + text + `}]`,
		"a number as long":        `[` + strings.Repeat("1", 20_000) + `]`,
		"an image's address":      `[{"image":"https://a/b"}]`,
		"a document's address":    `[[{"pdf":"https://a/b"}]]`,
	} {
		c := embeds(`{"model":"m","input":` + input + `}`)
		c.Key = g.CreateKey(t, "--name", "poor", "--balance-usd", "0.04").Key
		if got := g.Do(t, c); got.Status != http.StatusPaymentRequired {
			t.Errorf("%s: a key that cannot pay for it: %d %.200s", name, got.Status, got.Body)
		}
		c.Key = rich
		got := g.Do(t, c)
		if b := billOf(t, g, rich, got.Header.Get("X-Request-Id")); b.InputTokens != 5000 || b.Cost.String() != "0.050000" {
			t.Errorf("%s: %d %.100s, billed %+v", name, got.Status, got.Body, b)
		}
	}
	g.AssertSound(t)
}

// TestAReportOfNothingIsNoReport: a server that reports zeros, or numbers that nobody can read, gives its answer to nobody.
func TestAReportOfNothingIsNoReport(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 10}"}}},
	}})
	text := strings.Repeat("four", 1000)
	raw := func(stream bool, usage string) fake.Behaviour {
		r := &fake.Raw{Status: http.StatusOK, Header: []string{"content-type: application/json"}, Body: fmt.Sprintf(
			`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":%s}`, text, usage)}
		if stream {
			const chunk = `data: {"id":"c","object":"chat.completion.chunk","model":"m",`
			r.Header = []string{"content-type: text/event-stream"}
			r.Body = fmt.Sprintf(chunk+`"choices":[{"index":0,"delta":{"role":"assistant","content":%q}}]}`+"\n\n", text) +
				chunk + `"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
				chunk + `"choices":[],"usage":` + usage + "}\n\ndata: [DONE]\n\n"
		}
		return fake.Behaviour{Raw: r}
	}
	for usage, input := range map[string]int{
		`{}`: 0,
		`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`:  0,
		`{"prompt_tokens":7,"completion_tokens":0,"total_tokens":7}`:  7,
		`{"prompt_tokens":7,"completion_tokens":-5}`:                  7,
		`{"prompt_tokens":"7","completion_tokens":"1000"}`:            0,
		`{"prompt_tokens":7,"completion_tokens":null}`:                7,
		`{"total_tokens":1007}`:                                       0,
		`{"prompt_tokens":7,"completion_tokens":1e400}`:               7,
		`{"input_tokens":7,"output_tokens":1000,"total_tokens":1007}`: 0,
	} {
		for _, stream := range []bool{false, true} {
			p.Behave(raw(stream, usage))
			got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: stream}.call())
			b := billOf(t, g, g.Key, got.Header.Get("X-Request-Id"))
			if b.Status != "ok" || b.OutputTokens != 1000 || !b.UsageEstimated || input > 0 && b.InputTokens != input || b.InputTokens == 0 {
				t.Errorf("%s, stream %v: %d, billed %+v", usage, stream, got.Status, b)
			}
		}
	}
	g.AssertSound(t)
}

// TestAModelsNameLeadsNowhereElse: where a model's name is a part of the provider's path, it names a model and nothing else of the
// operator's account.
func TestAModelsNameLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Gemini})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "google", Fake: p}}})
	for _, model := range []string{
		"google/../tunedModels/theirs", "google/x/../../tunedModels/theirs", "google/..", "google/./x", "google//x", "google/x/", "google/models/../tunedModels/x",
	} {
		for _, stream := range []bool{false, true} {
			got := g.Do(t, ask{dialect: fake.OpenAI, model: model, stream: stream}.call())
			if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"param":"model"`) {
				t.Errorf("%s: %d %.200s", model, got.Status, got.Body)
			}
		}
	}
	if n := len(p.Generations()); n != 0 {
		t.Errorf("%d requests came to the provider", n)
	}
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "google/gemini-2.5-flash"}.call()); got.Status != http.StatusOK {
		t.Errorf("a model: %d %.200s", got.Status, got.Body)
	}
	g.AssertSound(t)
}

// TestSummariesOfAConversationArePaidFor: a provider that sums the conversation up before it answers bills that call as well, and says so
// beside the numbers of the answer. It is reserved, too.
func TestSummariesOfAConversationArePaidFor(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Format: "anthropic", Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 10}", More: "context: 200000, max_output: 500"}}},
	}})
	const usage = `{"input_tokens":23000,"output_tokens":400,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500},` +
		`{"type":"message","input_tokens":23000,"output_tokens":400}]}`
	const block = `{"type":"text","text":"Based on our conversation."}`
	whole := fake.Raw{Status: http.StatusOK, Header: []string{"content-type: application/json"}, Body: `{"id":"msg_1","type":"message","role":"assistant","model":"m",` +
		`"content":[` + block + `],"stop_reason":"end_turn","stop_sequence":null,"usage":` + usage + `}`}
	stream := fake.Raw{Status: http.StatusOK, Header: []string{"content-type: text/event-stream"}, Body: "" +
		`event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":23000,"output_tokens":1}}}` + "\n\n" +
		`event: content_block_start` + "\n" + `data: {"type":"content_block_start","index":0,"content_block":` + block + "}\n\n" +
		`event: content_block_stop` + "\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":` + usage + "}\n\n" +
		`event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n"}
	ask := func(key string, streamed bool) gateway.Call {
		return gateway.Call{Path: "/v1/messages", Key: key, Header: []string{
			"anthropic-version: 2023-06-01", "anthropic-beta: compact-2026-01-12,context-management-2025-06-27",
		}, Body: fmt.Sprintf(`{"model":"m","max_tokens":400,"stream":%v,"context_management":{"edits":[{"type":"compact_20260112"}]},"messages":[{"role":"user","content":%q}]}`,
			streamed, strings.Repeat("a word ", 3000))}
	}
	for streamed, raw := range map[bool]*fake.Raw{false: &whole, true: &stream} {
		p.Behave(fake.Behaviour{Raw: raw})
		got := g.Do(t, ask(g.Key, streamed))
		if b := billOf(t, g, g.Key, got.Header.Get("X-Request-Id")); b.InputTokens != 203_000 || b.OutputTokens != 3900 || b.UsageEstimated {
			t.Errorf("stream %v: %d %.300s\nbilled %+v", streamed, got.Status, got.Body, b)
		}
		if !strings.Contains(got.Body, usage) {
			t.Errorf("stream %v: the client does not read what its provider reports: %.600s", streamed, got.Body)
		}
	}
	before := len(p.Generations())
	poor := g.CreateKey(t, "--name", "poor", "--balance-usd", "0.02").Key // enough for one call, not for two
	if got := g.Do(t, ask(poor, false)); got.Status != http.StatusPaymentRequired || len(p.Generations()) != before {
		t.Errorf("a key that cannot pay for both calls: %d %.200s", got.Status, got.Body)
	}
	g.AssertSound(t)
}

// TestPromptsThatSayNothingArePaidFor: a provider completes them like the others, each with an answer as long as any.
func TestPromptsThatSayNothingArePaidFor(t *testing.T) {
	t.Parallel()
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"text":"hi","index":0,"finish_reason":"stop","logprobs":null}],`+
			`"usage":{"prompt_tokens":10,"completion_tokens":100000}}`)
	}))
	t.Cleanup(p.Close)
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", BaseURL: p.URL + "/v1", Key: "sk-p", Models: []gateway.Model{{ID: "m", Price: "{input: 0, output: 1}"}}, More: "completions: true"},
	}})
	const hundred = 100
	more := func(empty string) string { return strings.Repeat(","+empty, hundred-1) }
	for name, prompt := range map[string]string{
		"empty texts":       `["a"` + more(`""`) + `]`,
		"empty texts first": `[""` + more(`""`) + `,"a"]`,
		"nulls":             `["a"` + more(`null`) + `]`,
		"empty lists":       `[[5]` + more(`[]`) + `]`,
		"behind a number":   `[5` + more(`""`) + `]`,
		"as vectors":        `"a","prompt_embeds":["AAAA"` + more(`"AAAA"`) + `]`,
	} {
		c := gateway.Call{Path: "/v1/completions", Body: `{"model":"m","max_tokens":1000,"prompt":` + prompt + `}`}
		c.Key = g.CreateKey(t, "--name", "poor", "--balance-usd", "0.05").Key
		if got := g.Do(t, c); got.Status != http.StatusPaymentRequired {
			t.Errorf("%s: a key that cannot pay for all: %d %.200s", name, got.Status, got.Body)
		}
		c.Key = ""
		got := g.Do(t, c)
		if b := billOf(t, g, g.Key, got.Header.Get("X-Request-Id")); got.Status != http.StatusOK || b.OutputTokens != 100_000 {
			t.Errorf("%s: %d %.200s, billed %+v", name, got.Status, got.Body, b)
		}
	}
	g.AssertSound(t)
}

// TestAWiderWindowIsPaidFor: a flag of Anthropic's opens a window that is larger than the model's usual one. What a request may take of it is
// reserved, and what it took is believed.
func TestAWiderWindowIsPaidFor(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 9000, Output: 7}})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Format: "anthropic", Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 10}", More: "context: 1000, max_output: 500"}}},
	}})
	ask := func(key, flags string) gateway.Call {
		c := ask{dialect: fake.Anthropic, model: "m", say: strings.Repeat("a", 40_000)}.with(key)
		c.Header = append(c.Header, "anthropic-version: 2023-06-01", "anthropic-beta: "+flags)
		return c
	}
	for flags, input := range map[string]int{"context-1m-2025-08-07": 9000, "a-flag-2025-01-01,context-1m-2025-08-07": 9000, "another-1m-2025-08-07": 1100} {
		got := g.Do(t, ask(g.Key, flags))
		if b := billOf(t, g, g.Key, got.Header.Get("X-Request-Id")); got.Status != http.StatusOK || b.InputTokens != input {
			t.Errorf("%s: %d %.200s, billed %+v", flags, got.Status, got.Body, b)
		}
		poor := g.CreateKey(t, "--name", "poor", "--balance-usd", "0.05").Key // four times what the usual window may cost
		want := http.StatusOK
		if input == 9000 {
			want = http.StatusPaymentRequired
		}
		if got := g.Do(t, ask(poor, flags)); got.Status != want {
			t.Errorf("%s: a poor key: %d %.200s", flags, got.Status, got.Body)
		}
	}
	g.AssertSound(t)
}
