package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// twoModels has one provider that plays b for two models: "alone" has no other candidate, "backed" has one that is never needed.
func twoModels(t *testing.T, d fake.Dialect, b fake.Behaviour) (g *gateway.Gateway, second *fake.Server) {
	t.Helper()
	first := fake.Start(t, fake.Config{Dialect: d, Name: "first"})
	second = fake.Start(t, fake.Config{Dialect: d, Name: "second"})
	first.Behave(b)
	g = gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Format: string(d), Models: append(models("alone", ""), models("backed", "")...)},
		{ID: "second", Fake: second, Format: string(d), Models: models("backed", "")},
	}})
	return g, second
}

// everyStream is a stream for both dialects of both models.
func everyStream() (asks []ask) {
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		for _, model := range []string{"alone", "backed"} {
			asks = append(asks, ask{dialect: d, model: model, stream: true})
		}
	}
	return asks
}

// events is an event stream of these chunks.
func events(chunks ...string) fake.Behaviour {
	return fake.Behaviour{Raw: &fake.Raw{
		Status: http.StatusOK, Header: []string{"content-type: text/event-stream"}, Body: "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\n",
	}}
}

// TestK10OddChunks: a chunk without a delta, with null for one, without choices, or with usage alone does not end a stream, and the
// chunk that ends it is found.
func TestK10OddChunks(t *testing.T) {
	t.Parallel()
	chunk := func(rest string) string {
		return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m",` + rest + `}`
	}
	g, second := twoModels(t, fake.OpenAI, events(
		chunk(`"choices":[]`),
		chunk(`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`),
		chunk(`"choices":[{"index":0,"delta":{"content":"one "}}],"usage":null`),
		chunk(`"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}`),
		chunk(`"choices":[{"index":0,"delta":null,"finish_reason":null}]`),
		chunk(`"choices":[{"index":0,"delta":{"content":"two"},"finish_reason":""}]`),
		chunk(`"choices":[{"index":0,"delta":null,"finish_reason":"length"}]`),
		chunk(`"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}`),
		"[DONE]",
	))
	for _, a := range everyStream() {
		t.Run(fmt.Sprintf("%s to %s", a.model, a.dialect), func(t *testing.T) {
			got := g.Do(t, a.call())
			if got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			if s := text(t, a, got); s != "one two" {
				t.Errorf("it says %q", s)
			}
			want := `"finish_reason":"length"`
			if a.dialect == fake.Anthropic {
				want = `"stop_reason":"max_tokens"`
			}
			if n := strings.Count(got.Body, want); n != 1 {
				t.Errorf("%s comes %d times in %s", want, n, got.Body)
			}
			if rec := recordOf(t, g, got); rec.Status != "ok" || rec.InputTokens != 7 || rec.OutputTokens != 2 {
				t.Errorf("record %+v", rec)
			}
		})
	}
	if n := len(second.Generations()); n != 0 {
		t.Errorf("the second provider was asked %d times", n)
	}
}

// TestK08K09ToolTurns: a call in pieces names its tool once, and the turn ends as one with calls, whatever the provider says.
func TestK08K09ToolTurns(t *testing.T) {
	t.Parallel()
	call := fake.ToolCall{ID: "call_1", Name: "look", Args: `{"at":"the moon"}`, Pieces: 4}
	for d, stop := range map[fake.Dialect]string{fake.OpenAI: "stop", fake.Anthropic: "end_turn"} { //nolint:exhaustive // Gemini is tested apart
		g, _ := twoModels(t, d, fake.Behaviour{ToolCalls: []fake.ToolCall{call}, Stop: stop})
		for _, a := range everyStream() {
			if a.dialect == d {
				continue // the provider's own bytes pass
			}
			for _, a.stream = range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s, %s, stream=%v", d, a.dialect, a.model, a.stream), func(t *testing.T) {
					got := g.Do(t, a.call())
					if got.Status != http.StatusOK {
						t.Fatalf("%d %s", got.Status, got.Body)
					}
					if n := strings.Count(got.Body, `"name":"look"`); n != 1 || strings.Contains(got.Body, `"name":null`) {
						t.Errorf("the tool is named %d times in %s", n, got.Body)
					}
					ended := map[fake.Dialect]string{fake.OpenAI: `"finish_reason":"tool_calls"`, fake.Anthropic: `"stop_reason":"tool_use"`}[a.dialect] //nolint:exhaustive // Gemini is tested apart
					if n := strings.Count(got.Body, ended); n != 1 {
						t.Errorf("%s comes %d times in %s", ended, n, got.Body)
					}
				})
			}
		}
	}
}

// TestK48AnErrorWithoutACodeIsAnError: alone under a 200, or first in a stream, it becomes a JSON error of ours with a 5xx.
func TestK48AnErrorWithoutACodeIsAnError(t *testing.T) {
	t.Parallel()
	g, second := twoModels(t, fake.OpenAI, events(`{"error":{"message":"the secret sk-abcdef says boom"}}`))
	second.Behave(events(`{"error":{"message":"boom"}}`))
	for _, a := range everyStream() {
		t.Run(fmt.Sprintf("%s to %s", a.model, a.dialect), func(t *testing.T) {
			got := g.Do(t, a.call())
			mustFail(t, a, got, http.StatusBadGateway, "upstream_error")
			if strings.Contains(got.Body, "sk-abcdef") {
				t.Errorf("the provider's words reached the client: %s", got.Body)
			}
		})
	}
}

// TestPitfall13AStreamThatDies: after its first content a stream ends in an error event, whether or not another provider could have
// taken over before, and what came is accounted for.
func TestPitfall13AStreamThatDies(t *testing.T) {
	t.Parallel()
	for _, kind := range []fake.BreakKind{fake.Reset, fake.Close, fake.Stop} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			g, _ := twoModels(t, fake.OpenAI, fake.Behaviour{Tokens: 9, Gap: 30 * time.Millisecond, Break: fake.Break{Kind: kind, At: fake.AfterTokens, Tokens: 3}})
			for _, a := range everyStream() {
				got := g.Do(t, a.call())
				if got.Status != http.StatusOK || got.Err != nil || !strings.Contains(got.Body, "tok2") {
					t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
				}
				if strings.Contains(got.Body, "[DONE]") || strings.Contains(got.Body, "message_stop") {
					t.Errorf("it ends like a good one: %s", got.Body)
				}
				checkErrorEvent(t, a, got)
				if rec := recordOf(t, g, got); rec.Status != "cut" || rec.OutputTokens == 0 {
					t.Errorf("record %+v", rec)
				}
			}
		})
	}
}

// TestK35StaleTimers: streams end around the moments at which a heartbeat or a time-out is due, on connections that are used again
// at once. Nothing of one stream may come out in the next, and nothing may fall over.
func TestK35StaleTimers(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
	g := gateway.Run(t, gateway.Options{
		Config: "limits: {rpm: 0}\nrouting: {timeouts: {connect: 10s, first_token: 60ms, idle: 5s, heartbeat: 50ms}}\n",
		Providers: []gateway.Provider{
			{ID: "p", Fake: p, Models: append(models("alone", ""), models("backed", "")...)}, {ID: "other", Fake: other, Models: models("backed", "")},
		},
	})
	pid := g.PID()
	t.Run("concurrent streams", func(t *testing.T) {
		for worker := range 8 {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for i := range 40 {
					// The first content and the end come from 20 ms before to 20 ms after a timer is due.
					late := time.Duration((worker*40+i)%41) * time.Millisecond
					p.Behave(fake.Behaviour{Tokens: 2, FirstToken: 40*time.Millisecond + late, Gap: 30*time.Millisecond + late})
					a := everyStream()[i%4]
					got := g.Do(t, a.call())
					if got.Status == http.StatusGatewayTimeout || strings.Contains(got.Body, "upstream_timeout") {
						continue // the first content came too late
					}
					if n := strings.Count(got.Body, "tok0"); got.Status != http.StatusOK || n != 1 && !strings.Contains(got.Body, "Hello") {
						t.Fatalf("%+v: %d %v %s", a, got.Status, got.Err, got.Body)
					}
					if end := strings.LastIndex(got.Body, "data: "); strings.Contains(got.Body[end:], "heartbeat") {
						t.Fatalf("a heartbeat after the end: %s", got.Body)
					}
				}
			})
		}
	})
	if g.PID() != pid || strings.Contains(g.Log(), "panic") {
		t.Errorf("the gateway fell over:\n%s", g.Log())
	}
	p.Behave(fake.Behaviour{})
	a := ask{dialect: fake.OpenAI, model: "alone", stream: true}
	if s := text(t, a, g.Do(t, a.call())); s != "Hello from the fake provider." {
		t.Errorf("afterwards it says %q", s)
	}
	g.AssertSound(t)
}
