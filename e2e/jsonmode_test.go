package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// jsonMode is what the client says to have any JSON object; "" where its format has no words for it.
func (s shaper) jsonMode() string {
	switch s {
	case "openai":
		return `"response_format":{"type":"json_object"}`
	case "responses":
		return `"text":{"format":{"type":"json_object"}}`
	case "gemini":
		return `"generationConfig":{"responseMimeType":"application/json"}`
	}
	return ""
}

// jsonModeMember is the member by which a client asks for JSON, as X-Bardo-Degraded names it.
var jsonModeMember = map[shaper]string{
	"openai": "response_format:json_object", "responses": "text.format:json_object", "gemini": "responseMimeType:application/json",
}

// jsonModeAt is how each format has JSON mode in a request's body; "" for one that has none.
var jsonModeAt = map[fake.Dialect]string{
	fake.OpenAI: `"response_format":{"type":"json_object"}`, fake.Gemini: `"responseMimeType":"application/json"`, fake.Anthropic: "",
}

// TestD86JSONModeCrossesFormats: a client that asks for JSON gets a JSON object from every provider, described or not: by the format's own
// parameter where it has one, and else by words that are named.
func TestD86JSONModeCrossesFormats(t *testing.T) {
	t.Parallel()
	fakes := make(map[fake.Dialect]*fake.Server)
	o := gateway.Options{Config: quick}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		fakes[d] = fake.Start(t, fake.Config{Dialect: d})
		more := ""
		if d == fake.OpenAI {
			more = "completions: false" // a prompt becomes a turn
		}
		o.Providers = append(o.Providers, gateway.Provider{ID: "at-" + string(d), Fake: fakes[d], Format: string(d), More: more, Models: []gateway.Model{
			{ID: string(d) + "-described", More: "capabilities: [tools, structured_outputs]"},
			{ID: string(d) + "-plain", More: "capabilities: [vision]"},
			{ID: string(d) + "-unknown"},
		}})
	}
	g := gateway.Run(t, o)
	for d, p := range fakes {
		for _, kind := range []string{"described", "plain", "unknown"} {
			for _, client := range []shaper{"openai", "responses", "gemini"} {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/stream=%v", d, kind, client, stream), func(t *testing.T) {
						got := g.Do(t, client.call(string(d)+"-"+kind, stream, "Say it in JSON.", client.jsonMode()))
						var m struct{ Answer *string }
						if said := client.text(t, got, stream); json.Unmarshal([]byte(said), &m) != nil || m.Answer == nil {
							t.Errorf("the client reads %q", said)
						}
						asked, mode, degraded := string(lastOf(t, p).Body), "enforced", ""
						if jsonModeAt[d] == "" {
							mode, degraded = "prompted", jsonModeMember[client]+"->prompt"
						}
						if !strings.Contains(asked, jsonModeAt[d]) || strings.Contains(asked, "valid JSON object") != (mode == "prompted") {
							t.Errorf("it is asked %s", asked)
						}
						if got.Header.Get("X-Bardo-Degraded") != degraded || got.Header.Get("X-Bardo-Attempts") != "1" {
							t.Errorf("degraded: %q, want %q, after %s attempts", got.Header.Get("X-Bardo-Degraded"), degraded, got.Header.Get("X-Bardo-Attempts"))
						}
						mustSay(t, got, client, stream, mode+"; valid=true; retries=0")
					})
				}
			}
		}
	}
	t.Run("the same format, byte by byte", func(t *testing.T) {
		body := `{"model":"openai-unknown", "response_format": {"type":"json_object"} ,"messages":[{"role":"user","content":"JSON"}]}`
		if got := g.Chat(t, body); got.Status != http.StatusOK || string(lastOf(t, fakes[fake.OpenAI]).Body) != body {
			t.Errorf("%d, it is asked %s", got.Status, lastOf(t, fakes[fake.OpenAI]).Body)
		}
	})
	t.Run("a legacy completion", func(t *testing.T) { checkLegacyJSONMode(t, fakes, g) })
	g.AssertSound(t)
}

func checkLegacyJSONMode(t *testing.T, fakes map[fake.Dialect]*fake.Server, g *gateway.Gateway) {
	t.Helper()
	for d, p := range fakes {
		got := g.Do(t, gateway.Call{Path: "/v1/completions", Body: fmt.Sprintf(`{"model":"%s-described","prompt":"Say it in JSON.","response_format":{"type":"json_object"}}`, d)})
		var m struct{ Choices []struct{ Text string } }
		got.JSON(t, &m)
		var said struct{ Answer *string }
		if len(m.Choices) != 1 || json.Unmarshal([]byte(m.Choices[0].Text), &said) != nil || said.Answer == nil {
			t.Errorf("%s: %d %s", d, got.Status, got.Body)
		}
		if asked := string(lastOf(t, p).Body); !strings.Contains(asked, jsonModeAt[d]) {
			t.Errorf("%s is asked %s", d, asked)
		}
	}
}

// TestJSONModeIsCheckedAfterwards: an answer that is no JSON object is asked for once more, as often as for schemas, in words where the
// provider did not keep to its own parameter; one that was cut off passes as it came.
func TestJSONModeIsCheckedAfterwards(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	models := []gateway.Model{{ID: "m"}}
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models}}})
	once := gateway.Run(t, gateway.Options{
		Config:    quick + "inference: {structured_outputs: {retry_on_validation_failure: false}}\n",
		Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models}},
	})
	for _, client := range []shaper{"openai", "responses", "gemini"} {
		t.Run(string(client), func(t *testing.T) {
			p.Forget()
			p.Queue(fake.Behaviour{Text: "I would rather not."}, fake.Behaviour{JSON: `{"answer":"yes"}`})
			got := g.Do(t, client.call("m", false, "JSON, "+t.Name(), client.jsonMode()))
			if said := client.text(t, got, false); said != `{"answer":"yes"}` {
				t.Errorf("the client reads %q", said)
			}
			mustSay(t, got, client, false, "prompted; valid=true; retries=1")
			if again := string(lastOf(t, p).Body); len(p.Generations()) != 2 || !strings.Contains(again, "could not be read as JSON") {
				t.Errorf("after %d calls it is asked %s", len(p.Generations()), again)
			}

			p.Forget()
			p.Queue(fake.Behaviour{Text: "I would rather not."})
			got = once.Do(t, client.call("m", false, "JSON, "+t.Name(), client.jsonMode()))
			code, d := client.fails(t, got)
			if got.Status != http.StatusBadGateway || code != "schema_validation_failed" || d.Raw != "I would rather not." || len(p.Generations()) != 1 {
				t.Errorf("%d %s after %d calls", got.Status, got.Body, len(p.Generations()))
			}

			p.Forget()
			p.Queue(fake.Behaviour{Text: `{"answer":"it goes on and`, Stop: "length"})
			got = g.Do(t, client.call("m", false, "JSON, cut, "+t.Name(), client.jsonMode()))
			if !strings.Contains(strings.ReplaceAll(got.Body, `\`, ""), `{"answer":"it goes on and`) || got.Status != http.StatusOK || len(p.Generations()) != 1 {
				t.Errorf("%d %s after %d calls", got.Status, got.Body, len(p.Generations()))
			}
			mustSay(t, got, client, false, "enforced; valid=false; retries=0")
		})
	}
}

// TestJSONModeOfAPromptWithoutTheWord: OpenAI takes JSON mode only where the prompt says JSON. A client of its format hears that; for others
// the word is said, and named.
func TestJSONModeOfAPromptWithoutTheWord(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m"}}}}})
	for _, stream := range []bool{false, true} {
		for _, client := range []shaper{"openai", "responses", "gemini"} {
			p.Forget()
			got := g.Do(t, client.call("m", stream, fmt.Sprint("hi ", stream), client.jsonMode()))
			if client == "openai" {
				if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "must contain the word") || len(p.Generations()) != 1 {
					t.Errorf("%d %s after %d calls", got.Status, got.Body, len(p.Generations()))
				}
				continue
			}
			if said := client.text(t, got, stream); !strings.HasPrefix(said, `{"answer"`) {
				t.Errorf("%s reads %q", client, said)
			}
			asked := string(lastOf(t, p).Body)
			if !strings.Contains(asked, jsonModeAt[fake.OpenAI]) || !strings.Contains(asked, "valid JSON object") || len(p.Generations()) != 2 {
				t.Errorf("after %d calls it is asked %s", len(p.Generations()), asked)
			}
			if d := got.Header.Get("X-Bardo-Degraded"); d != jsonModeMember[client]+"->prompt" {
				t.Errorf("degraded: %q", d)
			}
		}
	}
}
