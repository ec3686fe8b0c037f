package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// chooses is a gateway with two providers: cheap and strong models, and one at each price that always thinks.
func chooses(t *testing.T) *gateway.Gateway {
	t.Helper()
	one := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "one"})
	two := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "two"})
	model := func(id, price, more string) gateway.Model {
		return gateway.Model{ID: id, Price: price, More: more + ", context: 200000, max_output: 64000, capabilities: [tools, structured_outputs]"}
	}
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "one", Fake: one, Models: []gateway.Model{
			model("small", "{input: 0.1, output: 0.4}", "quality: low, reasoning: none"),
			model("thinker", "{input: 0.01, output: 0.02}", "quality: low, thinking: {control: always}"),
			model("large", "{input: 5, output: 25}", "quality: maximum, reasoning: none"),
		}},
		{ID: "two", Fake: two, Format: "anthropic", Models: []gateway.Model{
			model("middle", "{input: 1, output: 5}", "quality: medium, reasoning: none"),
			model("great", "{input: 4, output: 20}", "quality: maximum, reasoning: none"),
		}},
	}})
}

const proof = "Prove that every finite group whose maximal subgroups all have prime index is supersolvable, and derive a counterexample for prime powers."

func conversed(t *testing.T, model string, maxTokens int, turns ...string) string {
	t.Helper()
	var messages []map[string]string
	for i, text := range turns {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		messages = append(messages, map[string]string{"role": role, "content": text})
	}
	body := map[string]any{"model": model, "messages": messages}
	if maxTokens > 0 {
		body["max_tokens"] = maxTokens
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestD80AutoChoosesByWhatARequestNeeds: cheap for what is easy, strong for what is hard, in every language; presets of the same; no model that
// thinks first where there is no room for thoughts.
func TestD80AutoChoosesByWhatARequestNeeds(t *testing.T) {
	t.Parallel()
	g := chooses(t)
	for _, row := range []struct {
		about, model string
		max          int
		text, want   string
	}{
		{"a greeting", "auto", 0, "hi", "thinker small"},
		{"a greeting in Chinese", "auto", 2000, "你好", "thinker small"},
		{"a word", "auto", 8, "hi", "small"},
		{"a proof", "auto", 2000, proof, "great"},
		{"a proof in Russian", "auto", 2000, "Докажите, что для любого простого p > 3 числитель суммы 1 + 1/2 + … + 1/(p−1) делится на p².", "great"},
		{"a short answer to a hard question", "auto", 8, proof, "great"},
		{"the best for a greeting", "auto:best", 8, "hi", "great"},
		{"the cheapest for a greeting", "auto:cheap", 8, "hi", "small"},
	} {
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: conversed(t, row.model, row.max, row.text)})
		if model := got.Header.Get("X-Bardo-Model"); got.Status != http.StatusOK || !strings.Contains(" "+row.want+" ", " "+model+" ") {
			t.Errorf("%s: %d by %q, want %s: %.200s", row.about, got.Status, model, row.want, got.Body)
		}
	}
}

// TestD80AConversationStays: with the model of its first turn, up to a better one where a turn needs more, and never back.
func TestD80AConversationStays(t *testing.T) {
	t.Parallel()
	g := chooses(t)
	turns := []string{"hi"}
	for i, row := range []struct{ text, want string }{
		{"", "small"}, {"and what is the capital of Peru?", "small"}, {proof, "great"}, {"thanks", "great"}, {"what day comes after Monday?", "great"},
	} {
		if i > 0 {
			turns = append(turns, "Very well.", row.text)
		}
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: conversed(t, "auto", 500, turns...)})
		if model := got.Header.Get("X-Bardo-Model"); got.Status != http.StatusOK || model != row.want {
			t.Errorf("turn %d: %d by %q, want %s: %.200s", i, got.Status, model, row.want, got.Body)
		}
	}
	// The history no longer shows what was hard: what the session needed is remembered.
	session := func(text string) string {
		return g.Do(t, gateway.Call{
			Path: "/v1/chat/completions", Body: conversed(t, "auto", 500, text), Header: []string{"X-Bardo-Session-Id: s1"},
		}).Header.Get("X-Bardo-Model")
	}
	if first, then := session(proof), session("thanks"); first != "great" || then != "great" {
		t.Errorf("a session began at %s and went on at %s", first, then)
	}
	if other := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: conversed(t, "auto", 500, "thanks")}).Header.Get("X-Bardo-Model"); other != "small" {
		t.Errorf("without the session it is %s", other)
	}
}

// TestD80AnExplanationShowsTheTerms: the task, the needed quality and each term of each candidate's score.
func TestD80AnExplanationShowsTheTerms(t *testing.T) {
	t.Parallel()
	g := chooses(t)
	call := gateway.Call{Path: "/v1/chat/completions", Body: conversed(t, "auto", 2000, proof), Header: []string{"X-Bardo-Route: explain"}}
	var e struct {
		Order []struct {
			Provider, Model string
			Score           float64
			Terms           map[string]json.RawMessage
		}
		Inferred struct {
			Task, Quality string
			Difficulty    float64
			Points        []struct {
				What  string
				Worth float64
			}
		}
	}
	g.Do(t, call).JSON(t, &e)
	if e.Inferred.Task != "maths" || e.Inferred.Quality != "maximum" || e.Inferred.Difficulty <= 0.38 || len(e.Inferred.Points) < 3 {
		t.Errorf("got %+v", e.Inferred)
	}
	if len(e.Order) < 4 {
		t.Errorf("four candidates where there are as many, got %+v", e.Order)
	}
	for _, o := range e.Order {
		sum := 0.0
		for _, name := range []string{"cost", "quality", "latency", "features"} {
			var term struct{ Value, Weight float64 }
			if err := json.Unmarshal(o.Terms[name], &term); err != nil {
				t.Fatalf("%s has no term %s: %v", o.Model, name, err)
			}
			sum += term.Value * term.Weight
		}
		if d := sum - o.Score; d > 0.001 || d < -0.001 || o.Terms["expected_cost_usd"] == nil {
			t.Errorf("%s: terms of %v for a score of %v", o.Model, sum, o.Score)
		}
	}
	call.Header = append(call.Header, "Accept: text/plain")
	for _, want := range []string{"task maths; difficulty", "needs quality maximum", "EXPECTED USD", "words of reasoning"} {
		if got := g.Do(t, call).Body; !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
