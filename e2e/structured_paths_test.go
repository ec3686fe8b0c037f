package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// lookup is a tool of the client's own, as each format has it, with further members behind it.
func (s shaper) lookup() string {
	const schema = `{"type":"object","properties":{"q":{"type":"string"}}}`
	switch s {
	case "openai":
		return `"tools":[{"type":"function","function":{"name":"lookup","parameters":` + schema + `}}]`
	case "anthropic":
		return `"tools":[{"name":"lookup","input_schema":` + schema + `}]`
	case "responses":
		return `"tools":[{"type":"function","name":"lookup","parameters":` + schema + `}]`
	}
	return `"tools":[{"functionDeclarations":[{"name":"lookup","parameters":` + schema + `}]}]`
}

// TestK22TheCallersToolsSurviveASchema: a turn in which the model calls them passes as it is, and the answer after it is checked.
func TestK22TheCallersToolsSurviveASchema(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	for name, p := range fakes {
		for _, shape := range shapes[:2] {
			for _, client := range shapers {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/stream=%v", name, shape.mode, client, stream), func(t *testing.T) {
						model := name + "-" + shape.mode
						p.QueueFor(model, fake.Behaviour{ToolCalls: []fake.ToolCall{{Name: "lookup", Args: `{"q":"what 42 means"}`}}})
						got := g.Do(t, client.call(model, stream, t.Name(), client.lookup(), observer))
						if got.Status != http.StatusOK || !strings.Contains(strings.ReplaceAll(got.Body, `\`, ""), "what 42 means") || strings.Contains(got.Body, "respond_") {
							t.Errorf("the call does not arrive: %d %s", got.Status, got.Body)
						}
						if word := got.Header.Get("X-Bardo-Schema"); strings.Contains(word, "valid") {
							t.Errorf("a turn that is no answer was checked: %q", word)
						}
						if got.Header.Get("X-Bardo-Attempts") != "1" {
							t.Errorf("it took %s attempts", got.Header.Get("X-Bardo-Attempts"))
						}
						asked := string(lastOf(t, p).Body)
						if !strings.Contains(asked, "lookup") {
							t.Errorf("the tool is not offered: %s", asked)
						}

						got = g.Do(t, client.call(model, stream, t.Name()+" again", client.lookup(), observer))
						if said := client.text(t, got, stream); !strings.Contains(said, `"verdict"`) {
							t.Errorf("the agent reads %q", said)
						}
						word := got.Header.Get("X-Bardo-Schema")
						if !strings.HasSuffix(word, "; valid=true; retries=0") {
							t.Errorf("X-Bardo-Schema: %q", word)
						}
					})
				}
			}
		}
	}
}

// TestK21ASchemaBesideThinkingIsLegal: the fake refuses what the API does. No tool is forced, and the answer is checked.
func TestK21ASchemaBesideThinkingIsLegal(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	p := fakes["anthropic"]
	for _, shape := range shapes {
		for _, client := range shapers {
			for _, stream := range []bool{false, true} {
				for _, tools := range []string{"", client.lookup()} {
					t.Run(fmt.Sprintf("%s/%s/stream=%v/tools=%v", shape.mode, client, stream, tools != ""), func(t *testing.T) {
						model := "anthropic-" + shape.mode
						p.QueueFor(model, fake.Behaviour{Thoughts: []fake.Thought{{Text: "Hm."}}, Flaw: fake.WrongRange}, fake.Behaviour{Thoughts: []fake.Thought{{Text: "Hm!"}}})
						got := g.Do(t, client.call(model, stream, "hi", tools, "X-Bardo-Subsystem: daimon_complex"))
						if said := client.text(t, got, stream); !strings.Contains(said, `"pleasure"`) {
							t.Errorf("the agent reads %q", said)
						}
						if !stream && !strings.HasSuffix(got.Header.Get("X-Bardo-Schema"), "; valid=true; retries=1") {
							t.Errorf("X-Bardo-Schema: %q", got.Header.Get("X-Bardo-Schema"))
						}
						asked := string(lastOf(t, p).Body)
						if !strings.Contains(asked, `"thinking"`) || strings.Contains(asked, `"type":"tool","name"`) {
							t.Errorf("it was asked %s", asked)
						}
					})
				}
			}
		}
	}
}

// TestACallersSchemaThatIsNone is told where it is wrong, before anybody is asked.
func TestACallersSchemaThatIsNone(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	for _, client := range shapers {
		got := g.Do(t, client.call("openai-enforced", false, "hi", client.schema("x", `{"type":"object","properties":{"a":{"type":"strin"}}}`)))
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "properties/a") && !strings.Contains(got.Body, "properties.a") {
			t.Errorf("%s: %d %s", client, got.Status, got.Body)
		}
	}
	for _, body := range []string{`{"response_schema":"HeartbeatDecisions"}`, `{"response_schema":{"name":"x","schema":{"type":7}}}`} {
		got := g.Do(t, shaper("openai").call("openai-enforced", false, "hi", `"bardo":{"profile":`+body+`}`))
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "bardo.profile.response_schema") {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
	if n := len(fakes["openai"].Generations()); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestWhoseFormHolds: the caller's own overrides its hint, that over the operator's word, that over the table.
func TestWhoseFormHolds(t *testing.T) {
	t.Parallel()
	g, _ := shaped(t, "inference: {profiles: {mind_wandering: {response_schema: FragmentEvaluation}, curator: {response_schema: ThreatAssessment}}}\n")
	const model = "openai-enforced"
	openai := shaper("openai")
	for _, row := range []struct{ about, more, header, want string }{
		{"nobody's", "", "X-Bardo-Golem-Id: 7", ""},
		{"the table's", "", "X-Bardo-Subsystem: heartbeat_t1", `"severity"`},
		{"the operator's", "", "X-Bardo-Subsystem: mind_wandering", `"novelty"`},
		{"the operator's over the table's", "", "X-Bardo-Subsystem: curator", `"threat_type"`},
		{"a hint's", `"bardo":{"profile":{"response_schema":{"name":"person","schema":` + personSchema + `}}}`, "X-Bardo-Subsystem: heartbeat_t1", `"age"`},
		{"a hint's name", `"bardo":{"profile":{"response_schema":"CognitionPlan"}}`, "X-Bardo-Subsystem: curator", `"action"`},
		{"a hint's name and no more", `"bardo":{"profile":{"response_schema":{"name":"RiskRationale"}}}`, "X-Bardo-Golem-Id: 7", `"risk_score"`},
		{"a locked part's", `"bardo":{"profile":{"response_schema":"CognitionPlan"}}`, "X-Bardo-Subsystem: risk", `"adjusted_size_usd"`},
		{"the caller's", openai.schema("person", personSchema), "X-Bardo-Subsystem: risk", `"age"`},
		{"the caller's text", `"response_format":{"type":"text"}`, "X-Bardo-Subsystem: heartbeat_t1", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			got := g.Do(t, openai.call(model, false, "hi", row.more, row.header))
			said := openai.text(t, got, false)
			if (row.want == "") != (said == "Hello from the fake provider.") || !strings.Contains(said, row.want) {
				t.Errorf("it says %q, want %s", said, row.want)
			}
			if (got.Header.Get("X-Bardo-Schema") == "") != (row.want == "") {
				t.Errorf("X-Bardo-Schema: %q", got.Header.Get("X-Bardo-Schema"))
			}
		})
	}
}

// TestFormsByConfiguration: each key of inference.structured_outputs.
func TestFormsByConfiguration(t *testing.T) {
	t.Parallel()
	const wrong = fake.WrongRange
	for _, row := range []struct {
		about, config string
		flaw          fake.Flaw
		word          string
		attempts      string
		asked         string // a part of what the model was asked; with "!" in front: not
	}{
		{"off", "enabled: false", wrong, "", "1", "!novelty"},
		{"a tool first", "prefer_schema_enforcement: false", fake.Flawless, "tool; valid=true; retries=0", "1", "respond_FragmentEvaluation"},
		{"unchecked", "validation: false", wrong, "enforced", "1", "novelty"},
		{"asked once", "retry_on_validation_failure: false", wrong, "enforced; valid=false; retries=0; default=true", "1", "novelty"},
		{"no retries", "max_retries: 0", wrong, "enforced; valid=false; retries=0; default=true", "1", "novelty"},
		{"asked four times", "max_retries: 3", wrong, "enforced; valid=false; retries=3; default=true", "4", "corrected"},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			g := gateway.Run(t, gateway.Options{
				Config:    quick + "inference: {structured_outputs: {" + row.config + "}}\n",
				Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", More: "capabilities: [tools, structured_outputs]"}}}},
			})
			p.Behave(fake.Behaviour{Flaw: row.flaw})
			for _, stream := range []bool{false, true} {
				got := g.Do(t, shaper("openai").call("m", stream, fmt.Sprint("hi ", stream), "", observer))
				shaper("openai").text(t, got, stream)
				if word := got.Header.Get("X-Bardo-Schema"); word != row.word || got.Header.Get("X-Bardo-Attempts") != row.attempts {
					t.Errorf("stream=%v: X-Bardo-Schema: %q after %s attempts, want %q after %s", stream, word, got.Header.Get("X-Bardo-Attempts"), row.word, row.attempts)
				}
				part, not := strings.CutPrefix(row.asked, "!")
				if asked := string(lastOf(t, p).Body); strings.Contains(asked, part) == not {
					t.Errorf("it was asked %s", asked)
				}
			}
		})
	}
}

// twoWays is a gateway with two providers of one model: the first enforces schemas, the second has to be told in words and costs more.
func twoWays(t *testing.T, config string) (g *gateway.Gateway, first, second *fake.Server) {
	t.Helper()
	first, second = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"}), fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "second"})
	return gateway.Run(t, gateway.Options{Config: quick + config, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 2}", More: "max_output: 500, capabilities: [tools, structured_outputs]"}}},
		{ID: "second", Fake: second, Format: "anthropic", Models: []gateway.Model{{ID: "m", Price: "{input: 10, output: 20}", More: "max_output: 500, capabilities: [vision]"}}},
	}}), first, second
}

// TestARetryThatFailsGoesOnElsewhere: the first provider's answer is paid for at its price, the second's at its own, and each is asked in
// its own way.
func TestARetryThatFailsGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	g, first, second := twoWays(t, "")
	for _, client := range shapers {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", client, stream), func(t *testing.T) {
				k := prepaid(t, g)
				first.Queue(fake.Behaviour{Flaw: fake.MissingField, Usage: &fake.Usage{Input: 100, Output: 10}}, fake.Behaviour{Status: http.StatusBadGateway})
				second.Queue(fake.Behaviour{Usage: &fake.Usage{Input: 200, Output: 20}})
				c := client.call("m", stream, "hi", "", observer)
				c.Key = k.Key
				got := g.Do(t, c)
				if said := client.text(t, got, stream); !strings.Contains(said, `"verdict"`) {
					t.Errorf("the agent reads %q", said)
				}
				mustSay(t, got, client, stream, "prompted; valid=true; retries=1")
				if asked := string(lastOf(t, second).Body); strings.Contains(asked, "corrected") || strings.Contains(asked, "output_config") {
					t.Errorf("the second is asked %s", asked)
				}
				var r recordedSchema
				get(t, g, k.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
				const cost = (100*1 + 10*2 + 200*10 + 20*20) * 12 / 10
				if r.Provider != "second" || r.Attempts != 3 || r.InputTokens != 300 || r.OutputTokens != 30 || micro(t, r.Cost) != cost {
					t.Errorf("the record is %+v, want a charge of %d", r, cost)
				}
				if left := balanceOf(t, g, k.Key); left != 10_000_000-cost {
					t.Errorf("%d is left", left)
				}
			})
		}
	}
	g.AssertSound(t)
}

// TestWhenNobodyAnswersAfterAWrongAnswer the default is given, and what was made is paid for.
func TestWhenNobodyAnswersAfterAWrongAnswer(t *testing.T) {
	t.Parallel()
	g, first, second := twoWays(t, "")
	second.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	for _, stream := range []bool{false, true} {
		k := prepaid(t, g)
		first.Queue(fake.Behaviour{Flaw: fake.ProseOnly, Usage: &fake.Usage{Input: 100, Output: 10}}, fake.Behaviour{Status: http.StatusBadGateway})
		c := shaper("openai").call("m", stream, "hi", "", observer)
		c.Key = k.Key
		got := g.Do(t, c)
		if said := shaper("openai").text(t, got, stream); !strings.Contains(said, `"verdict":"discard"`) {
			t.Errorf("the agent reads %q", said)
		}
		var r recordedSchema
		get(t, g, k.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
		if micro(t, r.Cost) != 144 || r.InputTokens != 100 || r.Attempts != 3 || r.Schema != "enforced; valid=false; retries=1; default=true" {
			t.Errorf("the record is %+v", r)
		}
		if left := balanceOf(t, g, k.Key); left != 10_000_000-144 {
			t.Errorf("%d is left", left)
		}
	}
	g.AssertSound(t)
}

// TestK34AClientThatLeavesInARetry pays for the answer that was made, and for the input of the retry.
func TestK34AClientThatLeavesInARetry(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: "limits: {rpm: 0}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{
		{ID: "m", Price: "{input: 1, output: 2}", More: "max_output: 500, capabilities: [tools, structured_outputs]"},
	}}}})
	for _, stream := range []bool{false, true} {
		k := prepaid(t, g)
		p.Forget()
		p.Queue(fake.Behaviour{Flaw: fake.WrongEnum, Usage: &fake.Usage{Input: 100, Output: 10}}, fake.Behaviour{Break: fake.Break{Kind: fake.Hang}})
		ctx, cancel := context.WithCancel(t.Context())
		c := shaper("openai").call("m", stream, "hi", "", observer)
		c.Key = k.Key
		left := make(chan struct{})
		go func() {
			defer close(left)
			if res, err := g.Open(ctx, c); err == nil {
				_ = res.Body.Close()
			}
		}()
		if _, err := p.WaitGenerations(soon(t), 2); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-left
		eventually(t, "the charge", func() bool {
			f := fundsOf(t, g, k.Key)
			left := micro(t, *f.Balance)
			return f.Held == "0.000000" && left < 10_000_000-144 && left > 10_000_000-2000
		})
	}
	g.AssertSound(t)
}

// TestAHeldStreamIsKeptAlive: nothing of an answer is seen before it is good, and one that stays wrong ends in an error event.
func TestAHeldStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := beating(t, "5s", gateway.Provider{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", More: "capabilities: [vision]"}}})
	for _, client := range []shaper{"openai", "anthropic", "responses"} {
		slow := fake.Behaviour{HeaderDelay: 500 * time.Millisecond, Flaw: fake.MissingField}
		p.Queue(slow, fake.Behaviour{HeaderDelay: 500 * time.Millisecond})
		got := g.Do(t, client.call("m", true, "hi from "+string(client), "", observer))
		if said := client.text(t, got, true); !strings.Contains(said, `"verdict"`) {
			t.Errorf("%s reads %q", client, said)
		}
		checkHeartbeats(t, got.Body, 2)
		if head := got.Header.Get("X-Bardo-Schema"); head != "prompted" {
			t.Errorf("%s: X-Bardo-Schema at the head: %q", client, head)
		}

		p.Queue(slow, slow)
		got = g.Do(t, client.call("m", true, "hi", "", "X-Bardo-Subsystem: hypnagogic_capture"))
		if got.Status != http.StatusOK || !strings.Contains(got.Body, "schema_validation_failed") || !strings.Contains(got.Body, `"issues"`) {
			t.Errorf("%s: %d %s", client, got.Status, got.Body)
		}
		checkHeartbeats(t, got.Body, 2)
	}
}

// TestOnlyGoodAnswersAreStored, and those of one form are no answers in another.
func TestOnlyGoodAnswersAreStored(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "inference: {profiles: {curator: {response_schema: FragmentEvaluation, reasoning_effort: none}}}\n")
	p := fakes["openai"]
	for _, shape := range shapes {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", shape.mode, stream), func(t *testing.T) {
				model := "openai-" + shape.mode
				ask := func(more string, header ...string) (string, gateway.Answer) {
					c := shaper("openai").call(model, stream, fmt.Sprintf("hi %v", stream), `"temperature":0`+more, append(header, "X-Bardo-Replay: fast")...)
					got := g.Do(t, c)
					return shaper("openai").text(t, got, stream), got
				}
				p.QueueFor(model, fake.Behaviour{Flaw: fake.WrongEnum}, fake.Behaviour{Flaw: fake.WrongEnum})
				for i, want := range []string{"miss", "miss", "hash"} { // a default, an answer, and the same again
					said, got := ask("", observer)
					if cache := got.Header.Get("X-Bardo-Cache"); cache != want {
						t.Errorf("answer %d is %q, want %q", i, cache, want)
					}
					if strings.Contains(said, "discard") != (i == 0) {
						t.Errorf("answer %d says %q", i, said)
					}
					if i > 0 {
						mustSay(t, got, "openai", stream, shape.mode+"; valid=true; retries=0")
					}
				}
				if _, got := ask("", "X-Bardo-Golem-Id: 7"); got.Header.Get("X-Bardo-Cache") != "miss" {
					t.Error("an answer in a form is one without")
				}
				if _, got := ask("," + shaper("openai").schema("person", plainSchema)); got.Header.Get("X-Bardo-Cache") != "miss" {
					t.Error("an answer in another form is one of the caller's")
				}
				p.QueueFor(model, fake.Behaviour{Flaw: fake.Truncated}, fake.Behaviour{Flaw: fake.Truncated})
				c := shaper("openai").call(model, stream, "cut", `"temperature":0,`+shaper("openai").schema("person", plainSchema))
				g.Do(t, c)
				if got := g.Do(t, c); got.Header.Get("X-Bardo-Cache") != "miss" {
					t.Errorf("an answer that was cut is stored: %s", got.Body)
				}
			})
		}
	}
}

// TestO06EventsOfForms: what the check came to, and what stood in for the form, without a word of the answer.
func TestO06EventsOfForms(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	g, fakes := shaped(t, fmt.Sprintf("telemetry: {events: \"file:%s\"}\n", file))
	p := fakes["openai"]
	wrong := fake.Behaviour{Flaw: fake.WrongEnum}
	want := map[string][]string{}
	for i, row := range []struct {
		model, subsystem string
		flaws            int
		want             []string
	}{
		{"openai-enforced", "hypnagogic_observer", 0, []string{`schema_validated enforced true 0 `}},
		{"openai-tool", "hypnagogic_observer", 1, []string{`schema_validated tool true 1 `}},
		{"openai-prompted", "hypnagogic_observer", 0, []string{`schema_validated prompted true 0 `, `schema_fallback prompted true 0 prompted`}},
		{"openai-enforced", "hypnagogic_observer", 2, []string{`schema_validated enforced false 1 `, `schema_fallback enforced false 1 default`}},
		{"openai-enforced", "hypnagogic_capture", 2, []string{`schema_validated enforced false 1 `, `schema_fallback enforced false 1 error`}},
	} {
		for range row.flaws {
			p.QueueFor(row.model, wrong)
		}
		got := g.Do(t, shaper("openai").call(row.model, false, fmt.Sprint("hi ", i), "", "X-Bardo-Subsystem: "+row.subsystem))
		want[got.Header.Get("X-Request-Id")] = row.want
	}
	said := map[string][]string{}
	eventually(t, "the events", func() bool {
		b, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		clear(said)
		for line := range strings.Lines(string(b)) {
			var e struct {
				Event string
				Data  struct {
					RequestID    string `json:"request_id"`
					Mode, Reason string
					Schema       string
					Valid        bool
					Retries      int
				}
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if name, ok := strings.CutPrefix(e.Event, "inference:schema_"); ok {
				said[e.Data.RequestID] = append(said[e.Data.RequestID], fmt.Sprintf("schema_%s %s %v %d %s", name, e.Data.Mode, e.Data.Valid, e.Data.Retries, e.Data.Reason))
				if e.Data.Schema == "" || strings.Contains(line, "novelty") {
					t.Errorf("event %s", line)
				}
			}
		}
		return len(said) == len(want)
	})
	for id, events := range want {
		if strings.Join(said[id], "\n") != strings.Join(events, "\n") {
			t.Errorf("events %q, want %q", said[id], events)
		}
	}
}

// TestRefusalsAndChoices: what is no answer, and what is several.
func TestRefusalsAndChoices(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	anthropic, openai := fakes["anthropic"], fakes["openai"]
	t.Run("a refusal of what the caller asked for", func(t *testing.T) {
		anthropic.QueueFor("anthropic-enforced", fake.Behaviour{Text: "I will not.", Stop: "refusal"})
		got := g.Do(t, shaper("anthropic").call("anthropic-enforced", false, "hi", shaper("anthropic").schema("p", personSchema)))
		if said := shaper("anthropic").text(t, got, false); said != "I will not." || !strings.Contains(got.Body, `"refusal"`) || got.Header.Get("X-Bardo-Schema") != "enforced" {
			t.Errorf("%v %s", got.Header, got.Body)
		}
	})
	t.Run("a refusal of what an agent asked for", func(t *testing.T) {
		anthropic.QueueFor("anthropic-enforced", fake.Behaviour{Text: "I will not.", Stop: "refusal"})
		got := g.Do(t, shaper("anthropic").call("anthropic-enforced", false, "hi", "", observer))
		if said := shaper("anthropic").text(t, got, false); !strings.Contains(said, `"discard"`) || got.Header.Get("X-Bardo-Schema") != "enforced; valid=false; retries=0; default=true" {
			t.Errorf("%v %s", got.Header, got.Body)
		}
	})
	for _, shape := range shapes {
		t.Run("several choices/"+shape.mode, func(t *testing.T) {
			for _, flaw := range []fake.Flaw{fake.Flawless, fake.ExtraProse, fake.MissingField, fake.WrongRange} {
				flaws, want := []fake.Behaviour{{Flaw: flaw}}, shape.mode+"; valid=true; retries=0"
				if flaw == fake.MissingField { // of both
					flaws, want = append(flaws, fake.Behaviour{}), shape.mode+"; valid=true; retries=1"
				}
				if flaw == fake.WrongRange {
					flaws, want = append(flaws, flaws...), shape.mode+"; valid=false; retries=1; choices=0/2; default=true"
				}
				openai.QueueFor("openai-"+shape.mode, flaws...)
				got := g.Do(t, shaper("openai").call("openai-"+shape.mode, false, fmt.Sprint("hi ", flaw), `"n":2`, observer))
				var m struct {
					Choices []struct{ Message struct{ Content string } }
				}
				got.JSON(t, &m)
				if len(m.Choices) != 2 {
					t.Fatalf("%d choices: %s", len(m.Choices), got.Body)
				}
				for _, c := range m.Choices {
					var f struct {
						Verdict string
						Novelty *float64
					}
					if err := json.Unmarshal([]byte(c.Message.Content), &f); err != nil || f.Verdict == "" || f.Novelty == nil || *f.Novelty > 1 {
						t.Errorf("%v: a choice says %s", err, c.Message.Content)
					}
				}
				if word := got.Header.Get("X-Bardo-Schema"); word != want {
					t.Errorf("X-Bardo-Schema: %q, want %q", word, want)
				}
			}
		})
	}
}

// TestP13AUsersOwnKeyIsNotReshaped: its vendor gets what the client wrote, and its answer passes as it is.
func TestP13AUsersOwnKeyIsNotReshaped(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, quick)
	for _, stream := range []bool{false, true} {
		o.ownOpenAI.Behave(fake.Behaviour{Flaw: fake.WrongRange})
		got := o.Do(t, shaper("openai").call("direct/openai/gpt-4.1", stream, "hi", shaper("openai").schema("person", personSchema)))
		if said := shaper("openai").text(t, got, stream); !strings.Contains(said, `"age":-`) {
			t.Errorf("the caller reads %q", said)
		}
		if asked := string(lastOf(t, o.ownOpenAI).Body); !strings.Contains(asked, personSchema) || got.Header.Get("X-Bardo-Schema") != "" {
			t.Errorf("%q, it was asked %s", got.Header.Get("X-Bardo-Schema"), asked)
		}
		o.ownOpenAI.Behave(fake.Behaviour{})
		got = o.Do(t, shaper("openai").call("direct/openai/gpt-4.1", stream, "hi", "", observer))
		if said := shaper("openai").text(t, got, stream); said != "Hello from the fake provider." {
			t.Errorf("the agent reads %q", said)
		}
	}
}

// TestAFormThatIsRefusedIsAskedForInAnotherWay: a provider may not do what its model is known for.
func TestAFormThatIsRefusedIsAskedForInAnotherWay(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	refuses := func(what string) fake.Behaviour { return fake.Behaviour{Status: http.StatusBadRequest, Message: what} }
	for _, stream := range []bool{false, true} {
		for _, row := range []struct {
			name    string
			refused []fake.Behaviour
			mode    string
		}{
			{"openai", []fake.Behaviour{refuses("response_format is not supported by this model")}, "tool"},
			{"openai", []fake.Behaviour{refuses("Invalid schema"), refuses("tool_choice: not supported")}, "prompted"},
			{"anthropic", []fake.Behaviour{refuses("output_config.format: Extra inputs are not permitted")}, "tool"},
		} {
			fakes[row.name].QueueFor(row.name+"-enforced", row.refused...)
			got := g.Do(t, shaper("openai").call(row.name+"-enforced", stream, fmt.Sprint("hi ", row.mode, stream), "", observer))
			if said := shaper("openai").text(t, got, stream); !strings.Contains(said, `"verdict"`) {
				t.Errorf("the agent reads %q", said)
			}
			if word := got.Header.Get("X-Bardo-Schema"); word != row.mode+"; valid=true; retries=0" {
				t.Errorf("X-Bardo-Schema: %q", word)
			}
			if n := got.Header.Get("X-Bardo-Attempts"); n != fmt.Sprint(1+len(row.refused)) {
				t.Errorf("%s attempts", n)
			}
		}
	}
	got := g.Do(t, shaper("openai").call("openai-enforced", false, "hi", `"temperature":7`, observer))
	if asked := string(lastOf(t, fakes["openai"]).Body); got.Status != http.StatusBadRequest || !strings.Contains(asked, `"json_schema"`) {
		t.Errorf("what is wrong besides changes how it is asked: %d %s", got.Status, asked)
	}
}

// keeper is a gateway with a provider that keeps responses.
func keeper(t *testing.T) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{
		ID: "p", Fake: p, More: "responses: true", Models: []gateway.Model{{ID: "responses", More: "max_output: 8000, capabilities: [tools, structured_outputs]"}},
	}}}), p
}

// TestARetryOfAResponseThatIsKept goes on from the same response as the request, and whoever goes on from its answer meets nothing of the
// one that was wrong.
func TestARetryOfAResponseThatIsKept(t *testing.T) {
	t.Parallel()
	g, p := keeper(t)
	first, _ := respond(t, g, false, `{"model":"responses","input":"first"}`)
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			p.Forget()
			p.Queue(fake.Behaviour{Flaw: fake.WrongEnum}, fake.Behaviour{})
			ask := shaper("responses").call("responses", stream, "then", fmt.Sprintf(`"instructions":"Be brief.","previous_response_id":%q`, first.ID), observer)
			got := g.Do(t, ask)
			mustSay(t, got, "responses", stream, "enforced; valid=true; retries=1")
			var asked [2]struct {
				Input        string
				Instructions string
				Previous     string `json:"previous_response_id"`
			}
			calls := p.Generations()
			if len(calls) != 2 {
				t.Fatalf("%d calls", len(calls))
			}
			for i := range asked {
				if err := json.Unmarshal(calls[i].Body, &asked[i]); err != nil {
					t.Fatalf("%v: %s", err, calls[i].Body)
				}
				if asked[i].Previous != first.ID || asked[i].Input != "then" {
					t.Errorf("call %d is %+v", i, asked[i])
				}
			}
			if asked[0].Instructions != "Be brief." || !strings.HasPrefix(asked[1].Instructions, "Be brief.\n\nYou have answered before, with:\n\n{") ||
				!strings.Contains(asked[1].Instructions, "Your last answer does not follow") {
				t.Errorf("the model is told %q, and then %q", asked[0].Instructions, asked[1].Instructions)
			}
			var second response
			if stream {
				second = streamed(t, got)
			} else {
				got.JSON(t, &second)
			}
			if third, _ := respond(t, g, stream, fmt.Sprintf(`{"model":"responses","input":"more","previous_response_id":%q}`, second.ID)); third.text() == "" {
				t.Errorf("the next answer is %+v", third)
			}
		})
	}
	t.Run("not kept", func(t *testing.T) { checkRetryOfUnstored(t, p, g) })
	t.Run("in a conversation of the provider's", func(t *testing.T) {
		own := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own"})
		g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(
			"providers: {direct: {keys: [{provider: openai, api_key: %s, base_url: %q, context_engineering: true}]}}\n", own.Key, own.URL)})
		talk := keptAnswer(t, g.Do(t, gateway.Call{Path: "/v1/conversations", Body: `{}`}), "direct/openai").ID
		own.Forget()
		own.Queue(fake.Behaviour{Flaw: fake.WrongEnum})
		got := g.Do(t, shaper("responses").call("direct/openai/gpt-4.1", false, "then", fmt.Sprintf(`"conversation":%q`, talk), observer))
		mustSay(t, got, "responses", false, "enforced; valid=false; retries=0; default=true")
		if n := len(own.Generations()); n != 1 {
			t.Errorf("the model is asked %d times", n)
		}
	})
}

func checkRetryOfUnstored(t *testing.T, p *fake.Server, g *gateway.Gateway) {
	t.Helper()
	p.Forget()
	p.Queue(fake.Behaviour{Flaw: fake.WrongEnum}, fake.Behaviour{})
	got := g.Do(t, shaper("responses").call("responses", false, "then", `"store":false`, observer))
	mustSay(t, got, "responses", false, "enforced; valid=true; retries=1")
	if again := string(lastOf(t, p).Body); !strings.Contains(again, `"role":"assistant"`) || strings.Contains(again, "instructions") {
		t.Errorf("the model is asked again with %s", again)
	}
}

// TestNoCallWaitsInAResponseThatIsKept: where the answer would be a call of a tool, its provider would wait for the call's result.
func TestNoCallWaitsInAResponseThatIsKept(t *testing.T) {
	t.Parallel()
	g, p := keeper(t)
	const maps = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":{"type":"number"}}`
	for _, row := range []struct{ more, mode string }{{"", "prompted"}, {`,"store":true`, "prompted"}, {`,"store":false`, "tool"}} {
		got := g.Do(t, shaper("responses").call("responses", false, "hi", shaper("responses").schema("person", maps)+row.more))
		mustSay(t, got, "responses", false, row.mode+"; valid=true; retries=0")
		asked := string(lastOf(t, p).Body)
		if tool := strings.Contains(asked, "respond_person"); tool != (row.mode == "tool") {
			t.Errorf("%q: it is asked %s", row.more, asked)
		}
		var r response
		got.JSON(t, &r)
		if row.mode == "prompted" {
			if next, _ := respond(t, g, false, fmt.Sprintf(`{"model":"responses","input":"more","previous_response_id":%q}`, r.ID)); next.text() == "" {
				t.Errorf("the next answer is %+v", next)
			}
		}
	}
}
