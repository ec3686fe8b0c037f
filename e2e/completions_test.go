package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestCompletionsFindsOutItsFormat: one endpoint takes both formats and the legacy prompt, over a provider of either.
func TestCompletionsFindsOutItsFormat(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: quick}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		p := fake.Start(t, fake.Config{Dialect: d, Name: "p-" + string(d)})
		o.Providers = append(o.Providers, gateway.Provider{ID: "p-" + string(d), Fake: p, Format: string(d), Models: models("m-"+string(d), "")})
	}
	g := gateway.Run(t, o)
	const hello = "Hello from the fake provider."
	for _, provider := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		model := "m-" + string(provider)
		for _, stream := range []bool{false, true} {
			name := model
			if stream {
				name += " streamed"
			}
			t.Run("OpenAI over "+name, func(t *testing.T) {
				a := ask{dialect: fake.OpenAI, model: model, stream: stream}
				if got := text(t, a, g.Do(t, gateway.Call{Path: "/v1/completions", Body: a.body()})); got != hello {
					t.Errorf("it said %q", got)
				}
			})
			for why, more := range map[string]string{"its system prompt": `"system":"be brief"`, "its tools": `"tools":[{"name":"f","input_schema":{"type":"object"}}]`} {
				t.Run("Anthropic by "+why+" over "+name, func(t *testing.T) {
					a := ask{dialect: fake.Anthropic, model: model, stream: stream, more: more}
					if got := text(t, a, g.Do(t, gateway.Call{Path: "/v1/completions", Body: a.body()})); got != hello {
						t.Errorf("it said %q", got)
					}
				})
			}
			t.Run("Anthropic by its header over "+name, func(t *testing.T) {
				a := ask{dialect: fake.Anthropic, model: model, stream: stream}
				c := a.call()
				c.Path = "/v1/completions"
				if got := text(t, a, g.Do(t, c)); got != hello {
					t.Errorf("it said %q", got)
				}
			})
			t.Run("a prompt over "+name, func(t *testing.T) {
				body := `{"model":"` + model + `","prompt":"hi"`
				if stream {
					body += `,"stream":true,"stream_options":{"include_usage":true}`
				}
				got := g.Do(t, gateway.Call{Path: "/completions", Body: body + "}"})
				said, usage := completionText(t, got, stream)
				if said != hello || !usage {
					t.Errorf("it said %q (usage: %t) in %s", said, usage, got.Body)
				}
			})
		}
	}
	g.AssertSound(t)
}

// completionText reads an answer of the legacy format.
func completionText(t *testing.T, got gateway.Answer, stream bool) (said string, usage bool) {
	t.Helper()
	datas := []string{got.Body}
	if stream {
		datas = nil
		for _, ev := range got.Events(t) {
			if ev.Data != "" {
				datas = append(datas, ev.Data)
			}
		}
		if n := len(datas); n == 0 || datas[n-1] != "[DONE]" {
			t.Fatalf("no [DONE] in %s", got.Body)
		}
		datas = datas[:len(datas)-1]
	}
	for _, data := range datas {
		var c struct {
			Object  string
			Choices []struct{ Text string }
			Usage   *struct {
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil || c.Object != "text_completion" {
			t.Fatalf("%s: %v", data, err)
		}
		for _, ch := range c.Choices {
			said += ch.Text
		}
		usage = usage || c.Usage != nil && c.Usage.Completion > 0
	}
	return strings.TrimSpace(said), usage
}

// prompts asks for the completion of a prompt.
func prompts(body string) gateway.Call { return gateway.Call{Path: "/v1/completions", Body: body} }

// directly is what a fake itself answers on a path.
func directly(t *testing.T, p *fake.Server, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v %.300s", resp.StatusCode, err, b)
	}
	return string(b)
}

// unnumbered is an answer without its id, which is another each time, and without the gateway's comments.
var unnumbered = regexp.MustCompile(`"id":"cmpl-[^"]*"|(?m)^: .*\n\n?`)

// TestPromptsGoAsTheyCameWhereTheyAreCompleted: a server of OpenAI's format that has the endpoint gets the client's own bytes, and the client
// the server's, with all that only this format says.
func TestPromptsGoAsTheyCameWhereTheyAreCompleted(t *testing.T) {
	t.Parallel()
	vendor, own := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "vendor"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own", Allow: []string{"top_k"}})
	router := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Vendor: fake.OpenRouter})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  openai: {api_key: %s, base_url: %q}
  openrouter: {api_key: %s, endpoint: %q, models: [{id: some/model, price: {input: 1, output: 2}}]}
  custom: [{id: own, endpoints: [%q], api_key: %s, models: [{id: m, price: {input: 1, output: 2}}]}]
`, vendor.Key, vendor.URL, router.Key, router.URL, own.URL, own.Key)})
	for _, at := range []struct {
		model string
		p     *fake.Server
	}{{"gpt-3.5-turbo-instruct", vendor}, {"m", own}, {"some/model", router}} {
		for name, more := range map[string]string{
			"a prompt":              `"prompt":"caf\u00e9  <b> \/ é"`,
			"prompts":               `"prompt":["a", "b"]`,
			"tokens":                `"prompt":[1212,318, 257]`,
			"lists of tokens":       `"prompt":[[1212,318],[257]]`,
			"a suffix":              `"prompt":"def f(","suffix":"return 1"`,
			"echo":                  `"echo":true , "prompt":"a","max_tokens":0,"logprobs":0`,
			"probabilities":         `"prompt":"a","logprobs":5`,
			"several answers":       `"prompt":["a","b"],"n":2`,
			"parameters":            `"prompt":"a","temperature":0.30,"seed":12345678901234567890,"logit_bias":{"50256":-100},"stop":["\n"],"max_tokens":7`,
			"the best of some":      `"prompt":"a","best_of":3`,
			"the best, all of them": `"prompt":"a","best_of":2,"n":2`,
		} {
			for _, stream := range []bool{false, true} {
				body := `{ "model" : "` + at.model + `", ` + more + ` }`
				if stream && strings.Contains(more, `"best_of":3`) {
					continue // which the API refuses
				}
				if stream {
					body = `{ "model" : "` + at.model + `", ` + more + `,"stream":true,"stream_options":{"include_usage":true} }`
				}
				got := g.Do(t, prompts(body))
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Degraded") != "" {
					t.Fatalf("%s at %s: %d, degraded %q, %.300s", name, at.model, got.Status, got.Header.Get("X-Bardo-Degraded"), got.Body)
				}
				sent := lastOf(t, at.p)
				if want := body; stream && sent.Path != "/v1/completions" || !stream && (string(sent.Body) != want || sent.Path != "/v1/completions") {
					t.Errorf("%s at %s: %s got\n%s\nwant\n%s", name, at.model, sent.Path, sent.Body, want)
				}
				want := unnumbered.ReplaceAllString(directly(t, at.p, "/completions", body), "")
				if have := unnumbered.ReplaceAllString(got.Body, ""); have != want {
					t.Errorf("%s at %s: the client got\n%s\nwant\n%s", name, at.model, have, want)
				}
			}
		}
	}
	g.AssertSound(t)
}

// TestPromptsAreMetered: each prompt, each answer and the ones that a provider chooses the best of, by its usage; a stream asks for it, and
// shows it to a client that asked.
func TestPromptsAreMetered(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 10}"}}},
	}})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 500}})
	for name, row := range map[string]struct {
		more   string
		stream bool
	}{
		"whole":                   {`"prompt":["a","b"],"max_tokens":1000`, false},
		"a stream":                {`"prompt":["a","b"],"max_tokens":1000,"stream":true`, true},
		"a stream with its usage": {`"prompt":"a","max_tokens":1000,"stream":true,"stream_options":{"include_usage":true}`, true},
		"the best of some":        {`"prompt":"a","max_tokens":100,"best_of":5`, false},
	} {
		key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
		c := prompts(`{"model":"m",` + row.more + strings.Repeat(" ", 2000) + `}`)
		c.Key = key
		got := g.Do(t, c)
		if got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, got.Status, got.Body)
		}
		if shown := strings.Contains(got.Body, `"usage":{`); shown != (!row.stream || strings.Contains(row.more, "include_usage")) {
			t.Errorf("%s: usage is shown: %v", name, shown)
		}
		b := billOf(t, g, key, got.Header.Get("X-Request-Id"))
		if paid := 1_000_000 - balanceOf(t, g, key); paid != 6_000 || b.InputTokens != 1000 || b.OutputTokens != 500 || b.UsageEstimated {
			t.Errorf("%s: paid %d, record %+v", name, paid, b)
		}
	}
	for name, more := range map[string]string{
		"prompts":               `"prompt":["` + strings.Repeat(`a","`, 999) + `a"],"max_tokens":1000`,
		"answers to prompts":    `"prompt":["a","b"],"n":50,"max_tokens":1000`,
		"those to choose among": `"prompt":"a","best_of":100,"max_tokens":1000`,
		"tokens":                `"prompt":[` + strings.Repeat(`1,`, 600_000) + `1],"max_tokens":50000`,
	} {
		p.Forget()
		c := prompts(`{"model":"m",` + more + `}`)
		c.Key = g.CreateKey(t, "--name", "k", "--balance-usd", "0.9").Key
		if got := g.Do(t, c); got.Status != http.StatusPaymentRequired || len(p.Generations()) != 0 {
			t.Errorf("%s: %d %.200s", name, got.Status, got.Body)
		}
	}
	c := prompts(`{"model":"m","prompt":"a"}`)
	c.Key = g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	if got := g.Do(t, c); got.Header.Get("X-Bardo-Degraded") != "max_tokens" || string(lastOf(t, p).Body) != `{"model":"m","prompt":"a","max_tokens":4096}` {
		t.Errorf("without a limit: degraded %q, the server got %s", got.Header.Get("X-Bardo-Degraded"), lastOf(t, p).Body)
	}
	g.AssertSound(t)
}

// TestPromptsAsATurn: where no provider of the model completes prompts, one text is the user's turn, and what that cannot say is refused by
// its name before anybody is asked.
func TestPromptsAsATurn(t *testing.T) {
	t.Parallel()
	lacks, told := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "lacks", NoLegacy: true}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "told"})
	claude := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "lacks", Fake: lacks, Models: models("m-lacks", "")},
		{ID: "told", Fake: told, Models: models("m-told", ""), More: "completions: false"},
		{ID: "anthropic", Fake: claude},
	}})
	for _, at := range []struct {
		model    string
		p        *fake.Server
		path     string
		attempts string
	}{
		{"m-told", told, "/v1/chat/completions", "1"},
		{"claude-sonnet-4-5", claude, "/v1/messages", "1"},
		{"m-lacks", lacks, "/v1/chat/completions", "2"}, // it is asked first
	} {
		for _, stream := range []bool{false, true} {
			body := `{"model":"` + at.model + `","prompt":["hi"],"best_of":1,"echo":false,"suffix":"","logprobs":null,"max_tokens":50`
			if stream {
				body += `,"stream":true,"stream_options":{"include_usage":true}`
			}
			got := g.Do(t, prompts(body+"}"))
			said, usage := completionText(t, got, stream)
			if sent := lastOf(t, at.p); said != "Hello from the fake provider." || !usage || sent.Path != at.path || got.Header.Get("X-Bardo-Degraded") != "" ||
				got.Header.Get("X-Bardo-Attempts") != at.attempts {
				t.Errorf("%s, streamed %v: it said %q by %s in %s attempts: %s", at.model, stream, said, sent.Path, got.Header.Get("X-Bardo-Attempts"), got.Body)
			}
		}
		if at.p == lacks {
			continue // it says itself what it lacks
		}
		at.p.Forget()
		for member, more := range map[string]string{
			"suffix": `"prompt":"a","suffix":"b"`, "echo": `"prompt":"a","echo":true`, "best_of": `"prompt":"a","best_of":2`,
			"logprobs": `"prompt":"a","logprobs":0`, "prompt": `"prompt":["a","b"]`, "prompt ": `"prompt":[1,2]`, " prompt": `"prompt":[[1,2]]`,
		} {
			got := g.Do(t, prompts(`{"model":"`+at.model+`",`+more+`}`))
			mustFail(t, ask{dialect: fake.OpenAI}, got, http.StatusBadRequest, "invalid_request")
			if !strings.Contains(got.Body, `"param":"`+strings.TrimSpace(member)+`"`) {
				t.Errorf("%s at %s: %s", more, at.model, got.Body)
			}
		}
		if n := len(at.p.Generations()); n != 0 {
			t.Errorf("%s was asked %d times for what it cannot be told", at.model, n)
		}
	}
	if got := g.Do(t, prompts(`{"model":"m-lacks","prompt":"a","suffix":"b"}`)); got.Status != http.StatusNotFound {
		t.Errorf("a server without the endpoint: %d %s", got.Status, got.Body)
	}
	g.AssertSound(t)
}

// TestPromptsFailOver: to who completes them as well, and to who takes them as a turn where they can be one.
func TestPromptsFailOver(t *testing.T) {
	t.Parallel()
	a, b := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "a"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "b"})
	c := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "c"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "a", Fake: a, Models: models("m", "")}, {ID: "b", Fake: b, Models: models("m", "up")}, {ID: "c", Fake: c, Format: "anthropic", Models: models("m", "")},
	}})
	for _, stream := range []bool{false, true} {
		more := `"max_tokens":5`
		if stream {
			more = `"max_tokens":5,"stream":true,"stream_options":{"include_usage":true}`
		}
		a.Behave(fake.Behaviour{Status: 503})
		b.Behave(fake.Behaviour{})
		got := g.Do(t, prompts(`{"model":"m","prompt":"hi","suffix":"!",`+more+`}`))
		if said, _ := completionText(t, got, stream); said != "Hello from the fake provider." || got.Header.Get("X-Bardo-Provider") != "b" ||
			strings.Contains(got.Body, `"up"`) || !strings.Contains(string(lastOf(t, b).Body), `"suffix":"!"`) {
			t.Errorf("streamed %v: %s by %s", stream, got.Body, got.Header.Get("X-Bardo-Provider"))
		}
		b.Behave(fake.Behaviour{Status: 503})
		c.Forget()
		if got := g.Do(t, prompts(`{"model":"m","prompt":"hi","suffix":"!",`+more+`}`)); got.Status != http.StatusServiceUnavailable || len(c.Generations()) != 0 {
			t.Errorf("streamed %v: %d %s, and c was asked %d times", stream, got.Status, got.Body, len(c.Generations()))
		}
		got = g.Do(t, prompts(`{"model":"m","prompt":"hi",`+more+`}`))
		if said, usage := completionText(t, got, stream); said != "Hello from the fake provider." || !usage || got.Header.Get("X-Bardo-Provider") != "c" {
			t.Errorf("streamed %v: %s by %s", stream, got.Body, got.Header.Get("X-Bardo-Provider"))
		}
	}
	g.AssertSound(t)
}
