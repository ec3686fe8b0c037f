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

// TestTheDemoCapsItsEcho: an answer does not grow with what it was sent.
func TestTheDemoCapsItsEcho(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{NoKey: true})
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		a := ask{dialect: d, model: "demo", say: strings.Repeat("é word ", 50_000)}
		c := a.call()
		c.Body = strings.Replace(c.Body, `"max_tokens":100,`, `"max_tokens":100000,`, 1)
		got := g.Do(t, c)
		if said := text(t, a, got); got.Status != http.StatusOK || len(said) > 4000 || !strings.Contains(said, "é word é word") || !strings.Contains(said, "bytes more)") {
			t.Errorf("%s: %d, %d bytes: %.300s", d, got.Status, len(said), said)
		}
	}
}

// TestTheDemoHonoursJSONModeAndN: it answers in JSON when asked to, and as often as it is asked to.
func TestTheDemoHonoursJSONModeAndN(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{NoKey: true})
	for _, stream := range []bool{false, true} {
		body := fmt.Sprintf(`{"model":"demo","stream":%t,"n":3,"response_format":{"type":"json_object"},"messages":[{"role":"user","content":"say \"hi\" in JSON"}]}`, stream)
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: body})
		if got.Status != http.StatusOK {
			t.Fatalf("stream=%v: %d %s", stream, got.Status, got.Body)
		}
		said := choicesOf(t, got, stream)
		if len(said) != 3 {
			t.Errorf("stream=%v: %d choices in %s", stream, len(said), got.Body)
		}
		for i, s := range said {
			var object map[string]any
			if err := json.Unmarshal([]byte(s), &object); err != nil || object["last_user_text"] != `say "hi" in JSON` {
				t.Errorf("stream=%v: choice %d is %q: %v", stream, i, s, err)
			}
		}
	}
}

// choicesOf is the text of each choice of an OpenAI answer.
func choicesOf(t *testing.T, got gateway.Answer, stream bool) map[int]string {
	t.Helper()
	type choice struct {
		Index          int
		Message, Delta struct{ Content string }
	}
	said := map[int]string{}
	add := func(data string) {
		var m struct{ Choices []choice }
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		for _, c := range m.Choices {
			said[c.Index] += c.Message.Content + c.Delta.Content
		}
	}
	if !stream {
		add(got.Body)
		return said
	}
	for _, ev := range got.Events(t) {
		if ev.Data != "" && ev.Data != "[DONE]" {
			add(ev.Data)
		}
	}
	return said
}
