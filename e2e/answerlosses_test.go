package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestD86WhatAStreamLosesIsNamedAtItsEnd: parts of an answer that the client's format cannot express are known only after the stream's headers.
func TestD86WhatAStreamLosesIsNamedAtItsEnd(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Providers: []gateway.Provider{{ID: "one", Fake: s, Format: "anthropic", Models: []gateway.Model{{ID: "m"}}}}})
	frames := []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"bash_code_execution","input":{}}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Done."}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`,
		`{"type":"message_stop"}`,
	}
	raw := fake.Raw{Status: http.StatusOK, Header: []string{"content-type: text/event-stream"}, Body: "data: " + strings.Join(frames, "\n\ndata: ") + "\n\n"}
	for _, client := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		want := ""
		if client == fake.OpenAI {
			want = "server_tool_use"
		}
		s.Queue(fake.Behaviour{Raw: &raw})
		got := g.Do(t, ask{dialect: client, model: "m", stream: true}.call())
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Degraded") != "" {
			t.Fatalf("%s: %d %v %s", client, got.Status, got.Header, got.Body)
		}
		if c := summaryOf(t, got); c.Degraded != want {
			t.Errorf("%s: the last comment names %q, want %q", client, c.Degraded, want)
		}
	}
	g.AssertSound(t)
}

// TestARefusedGenerationReachesItsClient: Groq's clients read what the model had written from the error, to repair it. A whole answer has it in the
// error's body, a stream in its last event.
func TestARefusedGenerationReachesItsClient(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Providers: []gateway.Provider{{ID: "one", Fake: s, Models: []gateway.Model{{ID: "m"}}}}})
	const refusal = `{"error":{"message":"the call did not match","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"{\"name\":\"f\"}"}}`
	const generated = `"failed_generation":"{\"name\":\"f\"}"`
	whole := fake.Raw{Status: http.StatusBadRequest, Header: []string{"content-type: application/json"}, Body: refusal}
	s.Queue(fake.Behaviour{Raw: &whole})
	got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
	if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, generated) || !strings.Contains(got.Body, `"code":"tool_use_failed"`) {
		t.Errorf("a whole answer: %d %s", got.Status, got.Body)
	}
	streamed := fake.Raw{
		Status: http.StatusOK, Header: []string{"content-type: text/event-stream"},
		Body: `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"well"}}]}` + "\n\nevent: error\ndata: " + refusal + "\n\n",
	}
	s.Queue(fake.Behaviour{Raw: &streamed})
	got = g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: true}.call())
	if got.Status != http.StatusOK || !strings.Contains(got.Body, generated) || !strings.Contains(got.Body, "broke off its answer: the call did not match") {
		t.Errorf("a stream: %d %s", got.Status, got.Body)
	}
	if strings.Contains(g.Log(), `\"f\"`) {
		t.Errorf("the log has what was generated: %s", g.Log())
	}
	g.AssertSound(t)
}
