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

// TestRoundsInBothShapesOfTheDataPath: beside Envoy and in its process.
func TestRoundsInBothShapesOfTheDataPath(t *testing.T) {
	t.Parallel()
	for _, shape := range dataPaths {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
			g := gateway.Run(t, gateway.Options{DataPath: shape, Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Format: "anthropic", Models: models("m", "")}}})
			for form := range metaForms {
				for _, stream := range []bool{false, true} {
					p.Queue(twoRounds()...)
					mustShowOneAnswer(t, form, stream, g.Do(t, metaCall(form, "m", stream, "")))
				}
			}
		})
	}
}

// TestAStoredAnswerIsTheOneOfTheLastRound, as the client saw it: a repeated request makes no call.
func TestAStoredAnswerIsTheOneOfTheLastRound(t *testing.T) {
	t.Parallel()
	g, own, _ := metaLab(t, "")
	for _, stream := range []bool{false, true} {
		for _, dialect := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			c := metaCall(string(dialect), "m", stream, "")
			c.Header = append(c.Header, "X-Bardo-Cache: force", "X-Bardo-Replay: fast")
			a := ask{dialect: dialect, stream: stream}
			own.Forget()
			own.Reset()
			own.Queue(twoRounds()...)
			said := turnOf(t, a, g.Do(t, c))
			again := g.Do(t, c)
			if next := turnOf(t, a, again); next.text != said.text || next.names() != said.names() || next.names() != `book_flight_7{"to":"Oslo"}` || again.Header.Get("X-Bardo-Cache") != "hash" {
				t.Errorf("%s, stream=%v: %+v, then %+v from %q", dialect, stream, said, next, again.Header.Get("X-Bardo-Cache"))
			}
			if n := len(own.Generations()); n > 2 {
				t.Errorf("%s, stream=%v: %d calls", dialect, stream, n)
			}
		}
	}
}

// TestD72HeartbeatsGoOnBetweenRounds: before anything was sent, and behind the text of an earlier round.
func TestD72HeartbeatsGoOnBetweenRounds(t *testing.T) {
	t.Parallel()
	own := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: frequentHeartbeats, Providers: []gateway.Provider{{ID: "own", Fake: own, Models: models("m", "")}}})
	for _, text := range []string{"", "Let me look."} {
		second := calling("Found.", "execute_tool", executes)
		second.FirstToken = 400 * time.Millisecond
		own.Queue(calling(text, "search_tools", searches), second)
		got := g.Do(t, metaCall("openai", "m", true, ""))
		if said := turnOf(t, ask{dialect: fake.OpenAI, stream: true}, got); !strings.HasSuffix(said.text, "Found.") {
			t.Errorf("the client reads %+v", said)
		}
		before, _, _ := strings.Cut(got.Body, "Found.")
		if _, behind, _ := strings.Cut(before, strings.TrimPrefix(text, "Let me ")); strings.Count(behind, ": heartbeat\n") < 2 {
			t.Errorf("no heartbeats behind %q: %s", text, got.Body)
		}
	}
}

// TestD81AClientThatLeavesInALaterRound pays for the rounds that were, and for the one that it leaves.
func TestD81AClientThatLeavesInALaterRound(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 10}"}}}}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "10").Key
	p.Queue(calling("Let me look.", "search_tools", searches), fake.Behaviour{Text: "Found a lot of tools.", Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 2}})
	c := metaCall("openai", "m", true, "")
	c.Key = key
	disconnect(t, g, c, func(line string) bool { return strings.Contains(line, "Found") })
	if paid := paidAtLast(t, g, key); paid < 1_000+1_000+300 || paid > 6_000 { // the first round's tokens, and the second's input, estimated
		t.Errorf("it paid %d", paid)
	}
	if _, err := p.WaitCancelled(soon(t), 1); err != nil {
		t.Error(err)
	}
	g.AssertSound(t)
}

// TestAnAnswerWithASchemaIsTheLastRoundsAlone: what the model said before it searched is no JSON. A wrong answer is corrected behind the rounds.
func TestAnAnswerWithASchemaIsTheLastRoundsAlone(t *testing.T) {
	t.Parallel()
	g, own, other := metaLab(t, "")
	const schema = `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}},`
	for model, at := range map[string]*fake.Server{"m": own, "n": other} {
		for _, stream := range []bool{false, true} {
			for _, first := range []string{`{"a":1}`, `{"b":1}`} {
				at.Forget()
				at.Queue(calling("Let me look.", "search_tools", searches), fake.Behaviour{Text: first}, fake.Behaviour{Text: `{"a":1}`})
				c := metaCall("openai", model, stream, "")
				c.Body = strings.Replace(c.Body, `"messages":`, schema+`"messages":`, 1)
				got := g.Do(t, c)
				want, calls := `{"a":1}`, 2
				if first != want {
					calls = 3
				}
				if said := turnOf(t, ask{dialect: fake.OpenAI, stream: stream}, got); said.text != want || len(said.calls) != 0 || len(at.Generations()) != calls {
					t.Errorf("%s, stream=%v, %s: %+v after %d calls: %s", model, stream, first, said, len(at.Generations()), got.Body)
				}
				at.Reset()
			}
		}
	}
}

// TestWhoGetsNoToolsOfTheGateway: requests whose calls could not be answered inside it keep tools of their own.
func TestWhoGetsNoToolsOfTheGateway(t *testing.T) {
	t.Parallel()
	g, own, _ := metaLab(t, "")
	for about, change := range map[string]func(c *gateway.Call){
		"several choices": func(c *gateway.Call) { c.Body = strings.Replace(c.Body, `"messages":`, `"n":2,"messages":`, 1) },
		"a second model's verification": func(c *gateway.Call) {
			c.Header = append(c.Header, "X-Bardo-Subsystem: risk", "X-Bardo-Verify: true")
			c.Body = strings.Replace(c.Body, `"model":"m"`, `"model":"both"`, 1)
		},
		"the pipeline profile is minimal": func(c *gateway.Call) { c.Header = append(c.Header, "X-Bardo-Pipeline: minimal") },
	} {
		own.Forget()
		c := metaCall("openai", "m", false, "")
		change(&c)
		got := g.Do(t, c)
		if got.Status != http.StatusOK || len(own.Generations()) == 0 {
			t.Errorf("%s: %d %s", about, got.Status, got.Body)
			continue
		}
		if strings.Contains(string(own.Generations()[0].Body), "search_tools") {
			t.Errorf("%s: the provider gets the gateway's tools", about)
		}
	}
}

// TestCallsInTextHaveRoundsToo: a model that writes its calls as text.
func TestCallsInTextHaveRoundsToo(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 2}", More: "tool_format: hermes"}}}}})
	for _, stream := range []bool{false, true} {
		p.Forget()
		p.Queue(fake.Behaviour{Text: `<tool_call>{"name": "search_tools", "arguments": ` + searches + `}</tool_call>`, Piece: 7}, fake.Behaviour{Text: `<tool_call>{"name": "execute_tool", "arguments": ` + executes + `}</tool_call>`, Piece: 7})
		got := g.Do(t, metaCall("openai", "m", stream, ""))
		if said := turnOf(t, ask{dialect: fake.OpenAI, stream: stream}, got); said.names() != `book_flight_7{"to":"Oslo"}` || said.text != "" {
			t.Errorf("stream=%v: %+v", stream, said)
		}
		if n := len(p.Generations()); n != 2 || !strings.Contains(string(p.Generations()[1].Body), "book_flight_0") {
			t.Errorf("stream=%v: %d calls", stream, n)
		}
	}
}

// TestK66MaskedValuesPassThroughRounds: the provider sees placeholders in each round, the client gets the values, and a schema's pattern does not refuse what is masked.
func TestK66MaskedValuesPassThroughRounds(t *testing.T) {
	t.Parallel()
	g, own, _ := metaLab(t, "pipeline: {pii: {policy: mask}}\n")
	for _, stream := range []bool{false, true} {
		own.Forget()
		c := metaCall("openai", "m", stream, "")
		c.Body = strings.Replace(c.Body, "Fly me to Oslo", "Fly jane.doe@mail.example.co.uk to Oslo", 1)
		c.Body = strings.ReplaceAll(c.Body, `"to":{"type":"string"}`, `"to":{"type":"string","format":"email"}`)
		g.Do(t, c)
		holder := placeholder.FindString(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(own.Generations()[0].Body)))
		own.Queue(calling("For "+holder+".", "search_tools", searches), calling("", "execute_tool", fmt.Sprintf(`{"name":"book_flight_7","arguments":{"to":%q}}`, holder)))
		got := g.Do(t, c)
		if said := turnOf(t, ask{dialect: fake.OpenAI, stream: stream}, got); holder == "" || said.text != "For jane.doe@mail.example.co.uk." || said.names() != `book_flight_7{"to":"jane.doe@mail.example.co.uk"}` {
			t.Errorf("stream=%v: %+v for %q", stream, said, holder)
		}
		if own.Saw("jane.doe") {
			t.Errorf("stream=%v: the provider sees the value", stream)
		}
	}
}
