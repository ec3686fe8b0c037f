package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// thoughts is what an answer shows of its reasoning, read as the client of its dialect would.
func thoughts(t *testing.T, a ask, got gateway.Answer) (out string) {
	t.Helper()
	type block struct{ Thinking string }
	type message struct {
		Content          json.RawMessage
		ReasoningContent string `json:"reasoning_content"`
	}
	if !a.stream {
		var m struct {
			Choices []struct{ Message message }
			Content []block
		}
		got.JSON(t, &m)
		for _, c := range m.Choices {
			out += c.Message.ReasoningContent
		}
		for _, b := range m.Content {
			out += b.Thinking
		}
		return out
	}
	for _, ev := range got.Events(t) {
		var e struct {
			Choices []struct{ Delta message }
			Delta   block
		}
		if ev.Data == "" || json.Unmarshal([]byte(ev.Data), &e) != nil {
			continue
		}
		for _, c := range e.Choices {
			out += c.Delta.ReasoningContent
		}
		out += e.Delta.Thinking
	}
	return out
}

// open is a provider like vLLM without a parser of reasoning; its models' names say how their answers are read.
func open(t *testing.T) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	price := "{input: 1, output: 2}"
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "open", Fake: p, Models: []gateway.Model{
		{ID: "open-1", Price: price},
		{ID: "implicit", Price: price, More: "implicit_open: true"},
		{ID: "off", Price: price, More: "reasoning: none"},
		{ID: "seeded", Price: price, More: "reasoning: seed"},
		{ID: "any", Price: price, More: "reasoning: tags"},
		{ID: "hermes", Price: price, More: "tool_format: hermes"},
	}}}}), p
}

// TestD41ThoughtsInTags: a model's thoughts that stand in its text reach each client as thoughts, and its text without them.
func TestD41ThoughtsInTags(t *testing.T) {
	t.Parallel()
	g, p := open(t)
	for _, row := range []struct{ about, model, says, thinks, text string }{
		{"a block", "open-1", "<think>\nWell, 1 < 2. </think>\n\nThe <think> tag", "\nWell, 1 < 2. ", "\n\nThe <think> tag"},
		{"white space before it", "open-1", " \n <think>Hm </think>Yes", "Hm ", "Yes"},
		{"K-76 no end", "open-1", "<think>Hm, so", "Hm, so", ""},
		{"K-76 an end alone", "open-1", "Hm </think>Yes", "", "Hm </think>Yes"},
		{"K-76 half a tag at the end", "open-1", "Yes <thi", "", "Yes <thi"},
		{"its prompt opened it", "implicit", "Hm, so </think>Yes", "Hm, so ", "Yes"},
		{"they are not looked for", "off", "<think>Hm </think>Yes", "", "<think>Hm </think>Yes"},
		{"another spelling", "seeded", "<seed:think>Hm </seed:think>Yes", "Hm ", "Yes"},
		{"which others do not have", "open-1", "<seed:think>Hm </seed:think>Yes", "", "<seed:think>Hm </seed:think>Yes"},
		{"any spelling", "any", "<thinking>Hm </thinking>Yes", "Hm ", "Yes"},
	} {
		for _, d := range bothDialects {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, stream=%v", row.about, d, stream), func(t *testing.T) {
					p.Queue(fake.Behaviour{Text: row.says, Usage: &fake.Usage{Input: 10, Output: 40}})
					a := ask{dialect: d, model: row.model, stream: stream}
					got := g.Do(t, a.call())
					if said, thought := text(t, a, got), thoughts(t, a, got); said != row.text || thought != row.thinks {
						t.Errorf("it says %q and thinks %q, want %q and %q\n%s", said, thought, row.text, row.thinks, got.Body)
					}
					if r, want := recordOf(t, g, got), (len(row.thinks)+3)/4; r.Reasoning != want || r.OutputTokens != 40 {
						t.Errorf("%d tokens of %d are reasoning, want %d of 40", r.Reasoning, r.OutputTokens, want)
					}
				})
			}
		}
	}
}

// TestD40TagsThatDeltasShare: wherever a server cuts its model's tags, and however it escapes them.
func TestD40TagsThatDeltasShare(t *testing.T) {
	t.Parallel()
	g, p := open(t)
	chunk := func(delta string) string {
		return `{"id":"c","object":"chat.completion.chunk","created":1,"model":"open-1","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
	}
	end := `{"id":"c","object":"chat.completion.chunk","created":1,"model":"open-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	for _, shape := range []fake.Shape{{}, {Cut: 7}} {
		for _, d := range bothDialects {
			t.Run(fmt.Sprintf("%s, in pieces of %d", d, shape.Cut), func(t *testing.T) {
				b := events(chunk(`{"role":"assistant","content":""}`), chunk(`{"content":"\u003cth"}`), chunk(`{"content":"ink>a <"}`), chunk(`{"content":"</thi"}`),
					chunk(`{"content":"nk\u003eb"}`), end, "[DONE]")
				b.Shape = shape
				p.Queue(b)
				a := ask{dialect: d, model: "open-1", stream: true}
				got := g.Do(t, a.call())
				if said, thought := text(t, a, got), thoughts(t, a, got); said != "b" || thought != "a <" {
					t.Errorf("it says %q and thinks %q\n%s", said, thought, got.Body)
				}
			})
		}
	}
}

// TestD41ThoughtsAroundCallsInText: thoughts are found before calls are, and behind them again; a call that is only thought of is none.
func TestD41ThoughtsAroundCallsInText(t *testing.T) {
	t.Parallel()
	g, p := open(t)
	const call = `<tool_call>{"name": "now", "arguments": {}}</tool_call>`
	for _, d := range bothDialects {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", d, stream), func(t *testing.T) {
				p.Queue(fake.Behaviour{Text: "<think>A call looks so: " + call + " </think>" + call + "\n<think>And then? </think>" + call})
				a := ask{dialect: d, model: "hermes", stream: stream, more: withTools(d)}
				got := g.Do(t, a.call())
				turn := turnOf(t, a, got)
				if thought := thoughts(t, a, got); turn.names() != "now{} now{}" || strings.TrimSpace(turn.text) != "" || thought != "A call looks so: "+call+" And then? " {
					t.Errorf("it calls %s, says %q and thinks %q\n%s", turn.names(), turn.text, thought, got.Body)
				}
			})
		}
	}
}

// TestAnAnswerWithoutTagsIsItsProvidersOwn: byte for byte, though its model might have thought in its text.
func TestAnAnswerWithoutTagsIsItsProvidersOwn(t *testing.T) {
	t.Parallel()
	g, p := open(t)
	chunk := `{"id":"c","x":{"y": 1.50},"object":"chat.completion.chunk","created":1,"model":"open-1","choices":[{"index":0,"delta":{"content":"< so"},"finish_reason":"stop"}]}`
	p.Queue(events(chunk, "[DONE]"))
	a := ask{dialect: fake.OpenAI, model: "open-1", stream: true}
	if got := g.Do(t, a.call()); !strings.HasPrefix(got.Body, "data: "+chunk+"\n\n") {
		t.Errorf("the client reads\n%s", got.Body)
	}
}
