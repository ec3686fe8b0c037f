package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// decision is a HeartbeatDecision.
func decision(action string, confidence float64, escalate bool) string {
	return fmt.Sprintf(`{"severity":"low","action":%q,"confidence":%v,"rationale":"because of %s","signals":[],"escalate":%v}`,
		action, confidence, action, escalate)
}

// tiered is a gateway with a cheap model for tier T1, and better ones for tier T2 at two providers.
func tiered(t *testing.T, config string) (g *gateway.Gateway, quick1, deep, deeper *fake.Server) {
	t.Helper()
	quick1 = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "swift"})
	deep = fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "deep"})
	deeper = fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "deeper"})
	g = gateway.Run(t, gateway.Options{Config: quick + config, Providers: []gateway.Provider{
		{ID: "swift", Fake: quick1, Models: []gateway.Model{{
			ID: "small", Price: "{input: 1, output: 2}", More: "quality: low, family: small, reasoning: none, capabilities: [tools, structured_outputs, low_effort]",
		}}},
		{ID: "deep", Fake: deep, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 3, output: 4}"}}},
		{ID: "deeper", Fake: deeper, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 3, output: 4}"}}},
	}})
	return g, quick1, deep, deeper
}

// a heartbeat of tier T1 that asks for it, or is not sure enough, is answered by tier T2, in every client's format, streamed or not, and
// both calls are paid for.
func TestR23TierT2AnswersWhatT1LeavesToIt(t *testing.T) {
	t.Parallel()
	g, swift, deep, _ := tiered(t, "inference: {escalation: {confidence_floor: 0.5}}")
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	settled := decision("hedge", 0.9, false)
	says(deep, settled, 2000, 50)
	for _, row := range []struct{ about, first, word string }{
		{"it says so", decision("observe", 0.9, true), "heartbeat_t1->heartbeat_t2; reason=escalate"},
		{"it is not sure", decision("observe", 0.4, false), "heartbeat_t1->heartbeat_t2; reason=confidence"},
		{"it is sure", decision("observe", 0.5, false), ""},
	} {
		says(swift, row.first, 1000, 100)
		for _, s := range shapers {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stream=%v", row.about, s, stream), func(t *testing.T) {
					swift.Forget()
					deep.Forget()
					before := balanceOf(t, g, key)
					c := s.call("auto", stream, "What now? "+t.Name(), "", "X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: auto")
					c.Key = key
					got := g.Do(t, c)
					want, by, cost, paid, attempts := settled, "deep", "0.0074", int64(8_880), 2
					if row.word == "" {
						want, by, cost, paid, attempts = row.first, "swift", "0.0012", 1_440, 1
					}
					if text := s.text(t, got, stream); text != want || got.Header.Get("X-Bardo-Provider") != by {
						t.Errorf("%s says %s", got.Header.Get("X-Bardo-Provider"), text)
					}
					if word := wordOf(t, got, "X-Bardo-Escalated", "escalated"); s != "gemini" && word != row.word {
						t.Errorf("escalated %q", word)
					}
					if a, b := len(swift.Generations()), len(deep.Generations()); a != 1 || b != attempts-1 {
						t.Errorf("%d and %d calls", a, b)
					}
					r := verifiedBy(t, g, key, got)
					if r.Cost.String() != cost || r.Attempts != attempts || r.Provider != by || (r.Escalation != nil) != (row.word != "") {
						t.Errorf("the record says %+v", r)
					}
					if e := r.Escalation; e != nil && (e.By.Provider != "swift" || e.From != "heartbeat_t1" || !strings.HasSuffix(row.word, e.Reason)) {
						t.Errorf("the record says %+v", e)
					}
					if took := before - balanceOf(t, g, key); took != paid {
						t.Errorf("%d were taken from the balance", took)
					}
					if row.word != "" {
						last, _ := deep.Last()
						if !strings.Contains(string(last.Body), `"effort":"high"`) || strings.Contains(string(last.Body), "bardo") {
							t.Errorf("tier T2 was asked %s", last.Body)
						}
					}
				})
			}
		}
	}
	g.AssertSound(t)
}

type escalationCase struct {
	about, config string
	header        []string
	swift         fake.Behaviour
	deep, deeper  fake.Behaviour
	model         string
	given         string
}

// who may not have tier T2, or for whom it fails, keeps the answer of T1; and T2 does not escalate further.
func TestR23TheAnswerOfT1StandsWhereThereIsNoBetterOne(t *testing.T) {
	t.Parallel()
	urgent, settled := decision("observe", 0.9, true), decision("hedge", 0.9, true)
	bad := fake.Behaviour{Status: http.StatusInternalServerError}
	for _, row := range []escalationCase{
		{about: "by configuration", config: "inference: {escalation: {mode: auto}}", given: "deep"},
		{about: "the request overrides the configuration", config: "inference: {escalation: {mode: auto}}", header: []string{"X-Bardo-Escalate: off"}, given: "swift"},
		{about: "nobody asked for it", given: "swift"},
		{about: "a terminal agent", header: []string{"X-Bardo-Escalate: auto", "X-Bardo-Phase: terminal"}, given: "swift"},
		{about: "one that declines has still a better model", header: []string{"X-Bardo-Escalate: auto", "X-Bardo-Phase: declining"}, given: "deep"},
		{about: "a provider that is named", header: []string{"X-Bardo-Escalate: auto"}, model: "swift/small", given: "swift"},
		{about: "a model that is named", header: []string{"X-Bardo-Escalate: auto"}, model: "small", given: "deep"},
		{about: "a private request", header: []string{"X-Bardo-Escalate: auto", "X-Bardo-Prefer: privacy"}, given: "deep"},
		{about: "the next one helps", header: []string{"X-Bardo-Escalate: auto"}, deep: bad, given: "deeper"},
		{about: "all fail", header: []string{"X-Bardo-Escalate: auto"}, deep: bad, deeper: bad, given: "swift"},
		{about: "it gives nothing good", header: []string{"X-Bardo-Escalate: auto"}, deep: fake.Behaviour{Flaw: fake.ProseOnly}, deeper: bad, given: "swift"},
		{about: "where T1 gives nothing good, its default says so", header: []string{"X-Bardo-Escalate: auto"}, swift: fake.Behaviour{Flaw: fake.ProseOnly}, given: "deep"},
		{about: "a verified one is given as it is", header: []string{"X-Bardo-Escalate: auto", "X-Bardo-Verify: true"}, deep: fake.Behaviour{JSON: decision("observe", 0.9, false)}, given: "swift"},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			g, swift, deep, deeper := tiered(t, row.config)
			for s, b := range map[*fake.Server]fake.Behaviour{deep: row.deep, deeper: row.deeper} {
				if b.Status == 0 && b.Flaw == fake.Flawless && b.JSON == "" {
					b.JSON = settled
				}
				s.Behave(b)
			}
			if row.swift.JSON = urgent; row.swift.Flaw != fake.Flawless {
				row.swift.JSON = ""
			}
			swift.Behave(row.swift)
			model := "auto"
			if row.model != "" {
				model = row.model
			}
			for _, stream := range []bool{false, true} {
				swift.Forget()
				say := fmt.Sprint("What now? streamed: ", stream) // a new question: an agent near its end samples so low that answers are stored
				got := g.Do(t, shaper("openai").call(model, stream, say, "", slices.Concat(row.header, []string{"X-Bardo-Subsystem: heartbeat_t1"})...))
				text := shaper("openai").text(t, got, stream)
				if by := got.Header.Get("X-Bardo-Provider"); by != row.given || (text == urgent) != (by == "swift") {
					t.Errorf("stream=%v: %s says %s", stream, by, text)
				}
				word := wordOf(t, got, "X-Bardo-Escalated", "escalated")
				if (word != "") != (row.given != "swift") {
					t.Errorf("stream=%v: escalated %q", stream, word)
				}
				if n := len(swift.Generations()); n != 1 && row.swift.Flaw == fake.Flawless {
					t.Errorf("stream=%v: tier T1 was asked %d times", stream, n)
				}
			}
			g.AssertSound(t)
		})
	}
}

// D-05: a private heartbeat is not shown to another provider because its answer asks for a better model.
func TestD05APrivateHeartbeatStaysPrivateThoughItEscalates(t *testing.T) {
	t.Parallel()
	quiet := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "quiet"})
	loud := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "loud"})
	hushed := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "hushed"})
	says(quiet, decision("observe", 0.9, true), 10, 10)
	says(loud, decision("exit", 0.9, false), 10, 10)
	says(hushed, decision("hedge", 0.9, false), 10, 10)
	small := gateway.Provider{ID: "quiet", Fake: quiet, More: "private: true", Models: []gateway.Model{{
		ID: "small", Price: "{input: 0.1, output: 0.1}", More: "quality: low, family: small, reasoning: none, capabilities: [tools, structured_outputs, low_effort]",
	}}}
	open := gateway.Provider{ID: "loud", Fake: loud, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6"}}}
	large := gateway.Provider{ID: "hushed", Fake: hushed, More: "private: true", Models: []gateway.Model{{
		ID: "large", Price: "{input: 3, output: 4}", More: "quality: high, family: large, capabilities: [tools, structured_outputs]",
	}}}
	for _, row := range []struct {
		about     string
		providers []gateway.Provider
		given     string
	}{
		{"nobody else is private", []gateway.Provider{small, open}, "quiet"},
		{"somebody is", []gateway.Provider{small, open, large}, "hushed"},
	} {
		t.Run(row.about, func(t *testing.T) {
			g := gateway.Run(t, gateway.Options{Config: quick, Providers: row.providers})
			got := g.Do(t, shaper("openai").call("small", false, "a secret of ours", "",
				"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: auto", "X-Bardo-Security-Class: private"))
			if got.Header.Get("X-Bardo-Provider") != row.given {
				t.Errorf("%d by %s: %s", got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
			}
			if loud.Saw("a secret of ours") {
				t.Error("the secret was told")
			}
		})
	}
}
