package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// sent is what a provider was asked, as far as profiles have a say in it.
type sent struct {
	Model            string   `json:"model"`
	Temperature      *float64 `json:"temperature"`
	TopP             *float64 `json:"top_p"`
	TopK             *int     `json:"top_k"`
	MinP             *float64 `json:"min_p"`
	MaxTokens        int      `json:"max_tokens"`
	ReasoningEffort  string   `json:"reasoning_effort"`
	PromptCacheKey   string   `json:"prompt_cache_key"`
	Reasoning        struct{ Effort string }
	Thinking         *struct{ Type string }
	VeniceParameters map[string]any `json:"venice_parameters"`
}

func sentTo(t *testing.T, p *fake.Server) (s sent) {
	t.Helper()
	if err := json.Unmarshal(lastOf(t, p).Body, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sent) temperature() string {
	if s.Temperature == nil {
		return ""
	}
	return fmt.Sprint(*s.Temperature)
}

// served asks, and fails unless it was answered.
func served(t *testing.T, g *gateway.Gateway, a ask, header ...string) gateway.Answer {
	t.Helper()
	got := g.Do(t, a.call(header...))
	if got.Status != http.StatusOK {
		t.Fatalf("status %d: %s", got.Status, got.Body)
	}
	return got
}

// lost is what an answer's headers say was not to be had.
func lost(got gateway.Answer) []string { return strings.Split(got.Header.Get("X-Bardo-Degraded"), ",") }

func TestD20AProfileReachesTheProvider(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick+`
inference:
  profiles: {curator: {temperature: 0.25, top_k: 7}, risk: {temperature: 1.5}}
  caching: {prompt_cache_key_prefix: acme}
`)
	if !strings.Contains(g.Log(), "inference.profiles.risk") {
		t.Errorf("nobody was warned of a locked profile:\n%s", g.Log())
	}
	for _, a := range both {
		t.Run(fmt.Sprintf("%s stream=%v", a.dialect, a.stream), func(t *testing.T) {
			a.say = t.Name() // or it would be answered as it was before
			got := served(t, g, a, "X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Golem-Id: 7")
			if s := sentTo(t, p); s.temperature() != "0.3" || *s.TopP != 0.9 || s.ReasoningEffort != "low" {
				t.Errorf("a heartbeat is sent as %s", lastOf(t, p).Body)
			}
			if l := lost(got); slices.Contains(l, "temperature") {
				t.Errorf("lost %q", l)
			}

			a.more = `"temperature":0.9`
			served(t, g, a, "X-Bardo-Subsystem: heartbeat_t1")
			if s := sentTo(t, p); s.temperature() != "0.9" || *s.TopP != 0.9 {
				t.Errorf("the client's own temperature is sent as %s", lastOf(t, p).Body)
			}

			got = served(t, g, a, "X-Bardo-Subsystem: risk", `X-Bardo-Profile: {"seed":3}`)
			if s := sentTo(t, p); s.temperature() != "0.1" || s.ReasoningEffort != "high" || strings.Contains(string(lastOf(t, p).Body), "seed") {
				t.Errorf("risk is sent as %s", lastOf(t, p).Body)
			}
			if l := lost(got); !slices.Contains(l, "temperature") || !slices.Contains(l, "seed") || !slices.Contains(l, "reasoning_effort:max->high") {
				t.Errorf("the client is told of %q", l)
			}

			a.more = `"bardo":{"profile":{"min_p":0.1},"vitality":0}`
			got = served(t, g, a, "X-Bardo-Subsystem: curator")
			if s := sentTo(t, p); s.temperature() != "0.25" || *s.TopP != 0.9 || s.MinP != nil || s.ReasoningEffort != "none" {
				t.Errorf("the curator is sent as %s", lastOf(t, p).Body)
			}
			if l := lost(got); !slices.Contains(l, "min_p:0.1->top_p:0.9") {
				t.Errorf("the client is told of %q", l)
			}

			a.more = ""
			served(t, g, a)
			if s := sentTo(t, p); s.Temperature != nil || s.ReasoningEffort != "" {
				t.Errorf("an ordinary request is sent as %s", lastOf(t, p).Body)
			}
		})
	}
}

// TestI05S12APhaseCompressesTemperatureAndEffort as the vitality does that it stands for.
func TestI05S12APhaseCompressesTemperatureAndEffort(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	for _, row := range []struct{ hint, temperature, effort string }{
		{"X-Bardo-Phase: thriving", "0.5", "high"},
		{"X-Bardo-Phase: declining", "0.42", "medium"},
		{"X-Bardo-Phase: desperate", "0.42", "medium"},
		{"X-Bardo-Vitality: 0.2", "0.42", "medium"},
		{"X-Bardo-Phase: terminal", "0.405", "none"},
		{"X-Bardo-Vitality: 0.05", "0.405", "none"},
	} {
		for _, a := range both {
			a.say = fmt.Sprintf("%s %s %v", row.hint, a.dialect, a.stream)
			served(t, g, a, "X-Bardo-Subsystem: heartbeat_t2", row.hint)
			if s := sentTo(t, p); s.temperature() != row.temperature || s.ReasoningEffort != row.effort {
				t.Errorf("%s is sent as %s", a.say, lastOf(t, p).Body)
			}
		}
	}
}

func TestD26SchedulesOfDreams(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Vendor: fake.Venice})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
inference: {web_search_enabled: true}
providers: {venice: {base_url: %q, api_key: %q, models: [{id: dreamer, family: llama, capabilities: [visible_thinking], price: {input: 1, output: 2, per_search: 0.01}}]}}
`, p.URL, p.Key)})
	a := ask{dialect: fake.OpenAI, model: "dreamer"}
	for _, r := range []struct {
		part, hint string
		steps      []string // temperatures, by the step
	}{
		{"dream_rem", `"rem_call":%d`, []string{"0.7", "0.77", "0.83", "0.9", "0.9"}},
		{"hypnagogic_dali", `"dali_total_steps":5,"dali_step":%d`, []string{"1.5", "1.354", "1", "0.646", "0.5", "0.5"}},
		{"hypnagogic_dali", `"dali_total_steps":5,"dali_cycle":1,"dali_step":%d`, []string{"1.425"}},
		{"hypnagogic_induction", `"induction_step":%d`, []string{"1", "1.07", "1.13", "1.2", "1.2"}},
	} {
		for i, want := range r.steps {
			a.more = fmt.Sprintf(`"bardo":{"subsystem":%q,"golem_id":"7",`+r.hint+`}`, r.part, i+1)
			served(t, g, a)
			if s := sentTo(t, p); s.temperature() != want {
				t.Errorf("%s at step %d is sent as %s", r.part, i+1, lastOf(t, p).Body)
			}
		}
	}
	if s := sentTo(t, p); s.MaxTokens != 0 || *s.MinP != 0.1 {
		t.Errorf("induction is sent as %s", lastOf(t, p).Body)
	}
	served(t, g, a, "X-Bardo-Subsystem: hypnagogic_dali")
	if s := sentTo(t, p); s.MaxTokens != 100 || *s.MinP != 0.08 {
		t.Errorf("a fragment is sent as %s", lastOf(t, p).Body)
	}
	a.more = `"bardo":{"subsystem":"dream_rem","golem_id":"7","scenario":{"entities":[{"name":"a protocol","episodes":1}]}}`
	served(t, g, a)
	if s := sentTo(t, p); s.PromptCacheKey != "dream-rem-7" || s.VeniceParameters["enable_web_search"] != "on" || s.VeniceParameters["strip_thinking_response"] != false {
		t.Errorf("a dream is sent as %s", lastOf(t, p).Body)
	}
}

// TestI10ADreamCycleSearchesForItsBudgetAlone: beyond it, dreams of the cycle are dreamt without, and say so; another cycle, and another agent,
// have budgets of their own. What costs nothing in the end, since its provider failed, is given back.
func TestI10ADreamCycleSearchesForItsBudgetAlone(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Vendor: fake.Venice})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
inference: {web_search_enabled: true, web_search_budget_per_cycle_usdc: 0.025}
providers: {venice: {base_url: %q, api_key: %q, models: [{id: dreamer, family: llama, capabilities: [web_search], price: {input: 1, output: 2, per_search: 0.01}}]}}
`, p.URL, p.Key)})
	searched := fake.Behaviour{Extra: `"venice_parameters":{"web_search_citations":[{"url":"https://a.example"}]}`}
	for i, row := range []struct {
		golem, cycle string
		fails        bool
		search       string
	}{
		{"7", "one", false, "on"},
		{"7", "one", true, "on"},
		{"7", "one", false, "on"},
		{"7", "one", false, "off"},
		{"7", "one", false, "off"},
		{"7", "two", false, "on"},
		{"8", "one", false, "on"},
	} {
		if p.Behave(searched); row.fails {
			p.Behave(fake.Behaviour{Status: http.StatusBadRequest})
		}
		a := ask{dialect: fake.OpenAI, model: "dreamer", stream: i%2 == 0, say: fmt.Sprint(i)}
		got := g.Do(t, a.call("X-Bardo-Subsystem: dream_rem", "X-Bardo-Golem-Id: "+row.golem, "X-Bardo-Dream-Cycle-Id: "+row.cycle))
		if s := sentTo(t, p); (got.Status == http.StatusOK) == row.fails || s.VeniceParameters["enable_web_search"] != row.search {
			t.Errorf("dream %d: %d, sent as %s", i, got.Status, lastOf(t, p).Body)
		}
		if told := slices.Contains(lost(got), "web_search"); told != (row.search == "off") {
			t.Errorf("dream %d: degraded %q", i, lost(got))
		}
	}
	g.AssertSound(t)
}

func TestD32AProfilesTemperatureMakesAnAnswerFitForTheCache(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	a := ask{dialect: fake.OpenAI, model: "m"}
	know := func(subsystem string) string {
		return served(t, g, a, "X-Bardo-Subsystem: "+subsystem).Header.Get("X-Bardo-Cache")
	}
	if first, second := know("hypnagogic_observer"), know("hypnagogic_observer"); first != "miss" || second != "hash" {
		t.Errorf("an observer's answers are %q and %q", first, second)
	}
	if got := know("mind_wandering"); got != "" {
		t.Errorf("a reverie's answer is %q", got)
	}
	a.more = `"temperature":0.3,"top_p":0.85,"bardo":{"profile":{"reasoning_effort":"none"}}` // who thinks is at no temperature
	if got := know("other_part"); got != "miss" || len(p.Generations()) != 3 {
		t.Errorf("another part's answer is %q, of %d", got, len(p.Generations()))
	}
}

func TestEventsOfProfiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	g, _ := one(t, quick+"telemetry: {events: \"file:"+file+"\"}\n")
	served(t, g, ask{dialect: fake.OpenAI, model: "m"})
	served(t, g, ask{dialect: fake.OpenAI, model: "m"}, "X-Bardo-Subsystem: risk", "X-Bardo-Golem-Id: 7")
	var said string
	eventually(t, "both events", func() bool {
		b, err := os.ReadFile(file)
		said = strings.ReplaceAll(string(b), `\u003e`, ">")
		return err == nil && strings.Contains(said, "inference:profile_degraded")
	})
	if n := strings.Count(said, "inference:profile_applied"); n != 1 {
		t.Errorf("%d profiles were applied:\n%s", n, said)
	}
	for _, want := range []string{
		`{"subsystem":"risk","temperature":"0.1","reasoning_effort":"max","structured":true,"cached":true}`,
		`{"subsystem":"risk","degraded":["top_k","reasoning_effort:max->high"]}`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in\n%s", want, said)
		}
	}
}

// TestD22ProfilesAreLegalAtAnthropic: the fake refuses what the real API does.
func TestD22ProfilesAreLegalAtAnthropic(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("providers: {anthropic: {base_url: %q, api_key: %q}}\n", p.URL, p.Key)})
	for _, model := range []string{"claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-4-8", "claude-3-5-haiku-20241022"} {
		for _, a := range both {
			for _, part := range []string{"heartbeat_t1", "heartbeat_t2", "risk", "dream_rem", "dream_rem_creative", "hypnagogic_dali", "operator", "death_testament"} {
				t.Run(fmt.Sprintf("%s %s %s stream=%v", part, model, a.dialect, a.stream), func(t *testing.T) {
					a.model, a.more, a.say = model, `"temperature":0.2`, t.Name()
					got := served(t, g, a, "X-Bardo-Subsystem: "+part)
					s := sentTo(t, p)
					if thinks := s.Thinking != nil && s.Thinking.Type != "disabled"; thinks && !slices.Contains(lost(got), "temperature") {
						t.Errorf("lost %q of %s", lost(got), lastOf(t, p).Body)
					}
					a.more = ""
					served(t, g, a, "X-Bardo-Subsystem: "+part)
				})
			}
		}
	}
}

// TestWhatAProviderRefusesOfAProfileIsLeftOut: the caller did not say it, and is not to hear of it. What it said itself is its own matter.
func TestWhatAProviderRefusesOfAProfileIsLeftOut(t *testing.T) {
	t.Parallel()
	refusal := fake.Behaviour{Status: http.StatusBadRequest, Message: "Unsupported value: 'temperature' does not support 0.3 with this model."}
	g, p := one(t, quick)
	for _, a := range both {
		a.model = "m"
		t.Run(fmt.Sprintf("%s stream=%v", a.dialect, a.stream), func(t *testing.T) {
			p.Forget()
			p.Queue(refusal)
			got := served(t, g, a, "X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Cache: no-store")
			sent := p.Generations()
			if len(sent) != 2 || !strings.Contains(string(sent[0].Body), `"temperature"`) || strings.Contains(string(sent[1].Body), `"temperature"`) ||
				!strings.Contains(string(sent[1].Body), `"top_p"`) {
				t.Fatalf("%d requests, the last %s", len(sent), sent[len(sent)-1].Body)
			}
			if !slices.Contains(lost(got), "temperature") || got.Header.Get("X-Bardo-Attempts") != "2" {
				t.Errorf("degraded %q after %s attempts", lost(got), got.Header.Get("X-Bardo-Attempts"))
			}
			p.Forget()
			p.Queue(refusal)
			mustFail(t, a, g.Do(t, a.call()), http.StatusBadRequest, "invalid_request")
			if n := len(p.Generations()); n != 1 {
				t.Errorf("without a profile: %d requests", n)
			}
		})
	}
}
