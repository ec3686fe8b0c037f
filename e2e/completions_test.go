package e2e

import (
	"encoding/json"
	"net/http"
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
				body := `{"model":"` + model + `","prompt":"hi","echo":true`
				if stream {
					body += `,"stream":true,"stream_options":{"include_usage":true}`
				}
				got := g.Do(t, gateway.Call{Path: "/completions", Body: body + "}"})
				said, usage := completionText(t, got, stream)
				if said != hello || !usage {
					t.Errorf("it said %q (usage: %t) in %s", said, usage, got.Body)
				}
				if lost := got.Header.Get("X-Bardo-Degraded"); lost != "echo" {
					t.Errorf("degraded is %q", lost)
				}
			})
		}
	}
	t.Run("a prompt that cannot be served", func(t *testing.T) {
		a := ask{dialect: fake.OpenAI}
		mustFail(t, a, g.Do(t, gateway.Call{Path: "/v1/completions", Body: `{"model":"m-openai","prompt":[1,2]}`}), http.StatusBadRequest, "invalid_request")
	})
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
