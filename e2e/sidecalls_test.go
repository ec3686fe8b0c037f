package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// summaries is the configuration of a gateway that summarises short conversations already.
const summaries = "pipeline: {compression: {summary: %s, summary_trigger_tokens: 3000}}\n"

// history is a long conversation in OpenAI's format; secret stands in its old part, and question is asked last.
type history struct {
	model, secret string
	turns         int
	stream        bool
	more          string // members of the body
}

func (h history) body(question string) string {
	var messages []map[string]string
	for i := range h.turns {
		messages = append(messages,
			map[string]string{"role": "user", "content": fmt.Sprintf("Question number %d of %s. %s", i, h.secret, strings.Repeat("tell me more about this matter please ", 12))},
			map[string]string{"role": "assistant", "content": fmt.Sprintf("Answer number %d. %s", i, strings.Repeat("there is not much to add to that ", 24))})
	}
	messages = append(messages, map[string]string{"role": "user", "content": question})
	raw, _ := json.Marshal(messages)
	stream := ""
	if h.stream {
		stream = `,"stream":true`
	}
	return fmt.Sprintf(`{"model":%q,"messages":%s%s%s}`, h.model, raw, stream, h.more)
}

// helpers is a gateway with a main provider, and one of a cheap model.
func helpers(t *testing.T, config string) (g *gateway.Gateway, lead, helper *fake.Server) {
	t.Helper()
	lead = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "lead"})
	helper = fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "helper"})
	g = gateway.Run(t, gateway.Options{Config: quick + config, Providers: []gateway.Provider{
		{ID: "lead", Fake: lead, Models: []gateway.Model{{ID: "big", Price: "{input: 10, output: 20}", More: "quality: high, reasoning: none"}}},
		{ID: "helper", Fake: helper, Format: "anthropic", Models: []gateway.Model{{ID: "mini", Price: "{input: 0.1, output: 1}", More: "quality: low, reasoning: none"}}},
	}})
	lead.Behave(fake.Behaviour{Text: "Fine.", Usage: &fake.Usage{Input: 1000, Output: 10}})
	helper.Behave(fake.Behaviour{Text: "They spoke about small matters.", Usage: &fake.Usage{Input: 5000, Output: 40}})
	return g, lead, helper
}

// sideRecord is what a request's record says of the calls that layers had made.
type sideRecord struct {
	Status     string
	Pipeline   string
	Cost       json.Number `json:"provider_cost_usd"`
	Input      int         `json:"input_tokens"`
	Attempts   int
	AttemptLog []struct{ Provider, Model, Outcome, Side string } `json:"attempt_log"`
	SideCalls  []struct {
		Layer, Provider, Model string
		Input                  int         `json:"input_tokens"`
		Output                 int         `json:"output_tokens"`
		Cost                   json.Number `json:"provider_cost_usd"`
	} `json:"side_calls"`
}

func sideRecordOf(t testing.TB, g *gateway.Gateway, key string, got gateway.Answer) (r sideRecord) {
	t.Helper()
	get(t, g, key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
	return r
}

// TestC10ALongConversationIsSummarisedByACheapModel: streamed or not, once per conversation, on the request's bill, in its record; the answer is that of the
// model that was asked.
func TestC10ALongConversationIsSummarisedByACheapModel(t *testing.T) {
	t.Parallel()
	g, lead, helper := helpers(t, fmt.Sprintf(summaries, "on"))
	for _, stream := range []bool{false, true} {
		lead.Forget()
		helper.Forget()
		key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
		h := history{model: "big", secret: fmt.Sprintf("the blue folder %v", stream), turns: 14, stream: stream}
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key, Body: h.body("What is next?")})
		if text := shaper("openai").text(t, got, stream); text != "Fine." || got.Header.Get("X-Bardo-Provider") != "lead" {
			t.Fatalf("%s says %q", got.Header.Get("X-Bardo-Provider"), text)
		}
		if a, b := len(lead.Generations()), len(helper.Generations()); a != 1 || b != 1 {
			t.Fatalf("stream=%v: %d and %d calls", stream, a, b)
		}
		asked, sent := string(helper.Generations()[0].Body), string(lead.Generations()[0].Body)
		if !strings.Contains(asked, "Question number 0") || strings.Contains(asked, "What is next?") || strings.Contains(asked, "Answer number 13") {
			t.Errorf("the summary is made of %.500s", asked)
		}
		for text, want := range map[string]bool{"They spoke about small matters.": true, "What is next?": true, "Answer number 13": true, "Answer number 2": false} {
			if strings.Contains(sent, text) != want {
				t.Errorf("stream=%v: %q is sent: %v", stream, text, !want)
			}
		}
		if did := got.Header.Get("X-Bardo-Pipeline"); !strings.Contains(did, "l5;dur=") || !strings.Contains(did, ";saved=") || !strings.Contains(did, ";summary=") {
			t.Errorf("stream=%v: the layers did %q", stream, did)
		}
		r := sideRecordOf(t, g, key, got)
		if len(r.SideCalls) != 1 || r.SideCalls[0].Provider != "helper" || r.SideCalls[0].Layer != "l5" || r.SideCalls[0].Input != 5000 || r.SideCalls[0].Output != 40 || r.SideCalls[0].Cost != "0.00054" {
			t.Errorf("stream=%v: side calls %+v", stream, r.SideCalls)
		}
		if r.Attempts != 2 || r.AttemptLog[0].Side != "l5" || r.AttemptLog[0].Provider != "helper" || r.AttemptLog[1].Side != "" || r.Cost != "0.01074" || r.Input != 6000 {
			t.Errorf("stream=%v: the record says %+v", stream, r)
		}
		if spent := 50_000_000 - balanceOf(t, g, key); spent != 12_888 {
			t.Errorf("stream=%v: %d was spent", stream, spent)
		}
		h.turns++ // the next turn of the conversation, as far as it was summarised
		again := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key, Body: h.body("And then?")})
		if again.Status != http.StatusOK || len(helper.Generations()) != 1 || len(lead.Generations()) != 2 {
			t.Fatalf("stream=%v: %d; %d and %d calls", stream, again.Status, len(lead.Generations()), len(helper.Generations()))
		}
		next := string(lead.Generations()[1].Body)
		if at := strings.Index(sent, "What is next?"); !strings.Contains(next, "They spoke about small matters.") || common(sent, next) < at-200 {
			t.Errorf("stream=%v: the next turn begins with %d of %d bytes", stream, common(sent, next), at)
		}
		if spent := 50_000_000 - balanceOf(t, g, key); spent != 12_888+12_240 {
			t.Errorf("stream=%v: %d was spent in all", stream, spent)
		}
	}
	g.AssertSound(t)
}

// common is how many bytes two texts begin with in common.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestC10SummariesThatAreNotUsed: in shadow mode, and where the cheap model is too slow, fails, is refused by the balance, or not allowed: the history is sent
// as it is, nothing is counted as saved, and only a call that was answered is paid for.
func TestC10SummariesThatAreNotUsed(t *testing.T) {
	t.Parallel()
	const answer = 12_240 // what the answer alone is charged, in micro-dollars
	for _, row := range []struct {
		about, mode string
		helper      fake.Behaviour
		balance     string
		note        string
		side        string // the outcome of the attempt
		spent       int64
		header      []string
	}{
		{"shadow", "shadow", fake.Behaviour{Text: "Short.", Usage: &fake.Usage{Input: 5000, Output: 40}}, "50", "summary=shadow;would=", "ok", answer + 648, nil},
		{"too slow", "on", fake.Behaviour{HeaderDelay: 5 * time.Second}, "50", "summary=timeout", "timeout", answer, nil},
		{"an error", "on", fake.Behaviour{Status: http.StatusInternalServerError}, "50", "summary=failed", "status_529", answer, nil},
		{"a reset", "on", fake.Behaviour{Break: fake.Break{Kind: fake.Reset, At: fake.AfterHeaders}}, "50", "summary=failed", "reset", answer, nil},
		{"a refusal", "on", fake.Behaviour{ToolCalls: []fake.ToolCall{{Name: "f", Args: "{}"}}, Usage: &fake.Usage{Input: 5000, Output: 40}}, "50", "summary=refused", "ok", answer + 648, nil},
		{"off", "off", fake.Behaviour{}, "50", "", "", answer, nil},
		{"a profile without the layer", "on", fake.Behaviour{}, "50", "", "", answer, []string{"X-Bardo-Pipeline: fast"}},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			g, lead, helper := helpers(t, fmt.Sprintf(summaries, row.mode))
			if row.about == "an error" {
				row.side = "status_500"
			}
			helper.Behave(row.helper)
			key := g.CreateKey(t, "--name", "k", "--balance-usd", row.balance).Key
			h := history{model: "big", secret: "the red folder", turns: 14}
			began := time.Now()
			got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key, Body: h.body("What is next?"), Header: row.header})
			if text := shaper("openai").text(t, got, false); text != "Fine." || time.Since(began) > 4500*time.Millisecond {
				t.Errorf("%q after %v", text, time.Since(began))
			}
			if sent := string(lead.Generations()[0].Body); !strings.Contains(sent, "Question number 0") || !strings.Contains(sent, "Answer number 2") {
				t.Errorf("sent is %.300s", sent)
			}
			did := got.Header.Get("X-Bardo-Pipeline")
			if strings.Contains(did, "saved=") || !strings.Contains(did, row.note) || row.note == "" && strings.Contains(did, "summary") {
				t.Errorf("the layers did %q", did)
			}
			r := sideRecordOf(t, g, key, got)
			switch {
			case row.side == "" && (len(r.AttemptLog) != 1 || len(helper.Generations()) != 0):
				t.Errorf("%d calls: %+v", len(helper.Generations()), r)
			case row.side != "" && (len(r.AttemptLog) != 2 || r.AttemptLog[0].Outcome != row.side || r.AttemptLog[0].Side != "l5"):
				t.Errorf("attempts %+v", r.AttemptLog)
			}
			if (len(r.SideCalls) == 1) != (row.side == "ok") {
				t.Errorf("side calls %+v", r.SideCalls)
			}
			if spent := 50_000_000 - balanceOf(t, g, key); spent != row.spent {
				t.Errorf("%d was spent, want %d", spent, row.spent)
			}
			g.AssertSound(t)
		})
	}
}

// TestC10ABalanceThatHasRoomForTheAnswerAlone: no summary is made, and the request is served.
func TestC10ABalanceThatHasRoomForTheAnswerAlone(t *testing.T) {
	t.Parallel()
	g, lead, helper := helpers(t, fmt.Sprintf(summaries, "on"))
	h := history{model: "big", secret: "the green folder", turns: 14, more: `,"max_tokens":100`}
	body := h.body("What is next?")
	for balance := 0.05; ; balance += 0.002 {
		if balance > 1 {
			t.Fatal("no balance has room for the answer alone")
		}
		key := g.CreateKey(t, "--name", "k", "--balance-usd", fmt.Sprintf("%.4f", balance)).Key
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key, Body: body})
		if got.Status == http.StatusPaymentRequired {
			if len(lead.Generations())+len(helper.Generations()) > 0 {
				t.Fatal("a request that cannot be paid for was sent")
			}
			continue
		}
		if did := got.Header.Get("X-Bardo-Pipeline"); got.Status != http.StatusOK || len(helper.Generations()) != 0 || !strings.Contains(did, "summary=no_money") {
			t.Errorf("with %.4f: %d, %d side calls, %q", balance, got.Status, len(helper.Generations()), did)
		}
		break
	}
	g.AssertSound(t)
}

// TestC10APrivateRequestIsNotSummarisedByAnybodyElse: where its own provider has no cheap model, it is sent as it is; where it has one, that is called.
func TestC10APrivateRequestIsNotSummarisedByAnybodyElse(t *testing.T) {
	t.Parallel()
	big := gateway.Model{ID: "calm-big", Price: "{input: 10, output: 20}", More: "quality: high, reasoning: none"}
	mini := gateway.Model{ID: "calm-mini", Price: "{input: 0.5, output: 1}", More: "quality: low, reasoning: none"}
	for _, row := range []struct {
		about  string
		models []gateway.Model
		note   string
		calls  int
	}{{"no cheap model of its own", []gateway.Model{big}, "summary=no_provider", 1}, {"one", []gateway.Model{big, mini}, "summary=3", 2}} {
		t.Run(row.about, func(t *testing.T) {
			quiet := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "quiet"})
			helper := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "helper"})
			hushed := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "hushed"})
			g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(summaries, "on"), Providers: []gateway.Provider{
				{ID: "quiet", Fake: quiet, Models: row.models, More: "private: true"},
				{ID: "hushed", Fake: hushed, Models: []gateway.Model{{ID: "other", Price: "{input: 0.2, output: 1}", More: "quality: low"}}, More: "private: true"},
				{ID: "helper", Fake: helper, Models: []gateway.Model{{ID: "mini", Price: "{input: 0.1, output: 1}", More: "quality: low"}}},
			}})
			h := history{model: "calm-big", secret: "the black folder", turns: 14}
			got := g.Chat(t, h.body("What is next?"), "X-Bardo-Security-Class: private", "X-Bardo-Pipeline: standard")
			if did := got.Header.Get("X-Bardo-Pipeline"); got.Status != http.StatusOK || !strings.Contains(did, row.note) || len(quiet.Generations()) != row.calls {
				t.Errorf("%d, %d calls, %q", got.Status, len(quiet.Generations()), did)
			}
			if helper.Saw(h.secret) || hushed.Saw(h.secret) {
				t.Error("another provider has it")
			}
			g.AssertSound(t)
		})
	}
}

// TestD81WhoLeavesDuringASideCallPaysForIt: as far as it went.
func TestD81WhoLeavesDuringASideCallPaysForIt(t *testing.T) {
	t.Parallel()
	g, lead, helper := helpers(t, "pipeline: {compression: {summary: on, summary_trigger_tokens: 3000, summary_timeout: 10s}}\n")
	helper.Behave(fake.Behaviour{HeaderDelay: 30 * time.Second})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		h := history{model: "big", secret: "the grey folder", turns: 14, stream: true}
		if res, err := g.Open(ctx, gateway.Call{Path: "/v1/chat/completions", Key: key, Body: h.body("What is next?")}); err == nil {
			_ = res.Body.Close()
		}
	}()
	if _, err := helper.WaitGenerations(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	leave()
	<-gone
	if _, err := helper.WaitCancelled(soon(t), 1); err != nil {
		t.Error(err)
	}
	eventually(t, "the charge", func() bool { f := fundsOf(t, g, key); return f.Held == "0.000000" && micro(t, *f.Balance) < 50_000_000 })
	spent := 50_000_000 - balanceOf(t, g, key)
	if len(lead.Generations()) != 0 || spent < 200 || spent > 2000 { // about 4,000 tokens at 0.1 USD per million, and a fifth
		t.Errorf("%d calls, %d was spent", len(lead.Generations()), spent)
	}
	g.AssertSound(t)
}

// TestASlowSummaryDoesNotBlameItsProvider: the time limit of a side call is far shorter than that of a request, which the provider still serves first.
func TestASlowSummaryDoesNotBlameItsProvider(t *testing.T) {
	t.Parallel()
	g, _, helper := helpers(t, "pipeline: {compression: {summary: on, summary_trigger_tokens: 3000, summary_timeout: 100ms}}\n")
	helper.Behave(fake.Behaviour{HeaderDelay: time.Second})
	for i := range 7 {
		h := history{model: "big", secret: fmt.Sprint("folder ", i), turns: 14}
		if got := g.Chat(t, h.body("What is next?")); got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Bardo-Pipeline"), "summary=timeout") {
			t.Fatalf("%d %v", got.Status, got.Header)
		}
	}
	if out := g.Bardo(t, "providers", "--json"); !strings.Contains(out, `"helper"`) || strings.Contains(out, `"down"`) || strings.Contains(out, `"degraded"`) {
		t.Error(out)
	}
}

// outcomes are ways in which a provider fails; first, that it does not: its health is good then.
var outcomes = []struct {
	name string
	fake.Behaviour
}{
	{"healthy", fake.Behaviour{Text: "Brief.", Usage: &fake.Usage{Input: 5000, Output: 40}}},
	{"500", fake.Behaviour{Status: http.StatusInternalServerError}},
	{"429", fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "1"}},
	{"401", fake.Behaviour{Status: http.StatusUnauthorized}},
	{"reset", fake.Behaviour{Break: fake.Break{Kind: fake.Reset, At: fake.BeforeHeaders}}},
	{"cut", fake.Behaviour{Break: fake.Break{Kind: fake.Close, At: fake.AfterHeaders}}},
	{"timeout", fake.Behaviour{HeaderDelay: 4 * time.Second}},
}

// TestD05SideCallsNeverLeaveForAProviderThatTheRequestCouldNotUse: every byte that reaches a provider is recorded. Summaries, second opinions and
// escalations of private and confidential requests, of keys whose plan leaves a provider out, and of requests with a key of their own go to nobody but who
// may have the request itself, whatever fails.
func TestD05SideCallsNeverLeaveForAProviderThatTheRequestCouldNotUse(t *testing.T) {
	t.Parallel()
	const brought = "sk-or-the-users-own"
	all := map[string]*fake.Server{
		"lead": fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "lead"}), "rival": fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "rival"}),
		"quiet": fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "quiet"}), "hushed": fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "hushed"}),
		"helper": fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "helper"}),
	}
	broad := fake.Start(t, fake.Config{Vendor: fake.OpenRouter, Keys: []string{brought}})
	model := func(id, price, quality, family string) string {
		return fmt.Sprintf(`{id: %s, upstream_id: %s, price: {input: %s, output: %s}, quality: %s, family: %s, reasoning: none, capabilities: [tools, structured_outputs, low_effort, cross_verify]}`, id, id, price, price, quality, family)
	}
	custom := func(id, format, more string, models ...string) string {
		s := all[id]
		return fmt.Sprintf("    - {id: %s, format: %s, endpoints: [%q], api_key: %s, models: [%s]%s}\n", id, format, s.URL, s.Key, strings.Join(models, ", "), more)
	}
	config := `
limits: {rpm: 0}
routing: {ping_interval: 1h, timeouts: {connect: 5s, first_token: 3s, first_token_reasoning: 3s, idle: 3s}}
billing: {tiers: {free: {exclude: [helper]}, pro: {}}}
pipeline: {default: standard, hash: off, compression: {summary: on, summary_trigger_tokens: 3000, summary_timeout: 1s}}
providers:
  order: [lead, rival, quiet, hushed, helper, openrouter]
  custom:
` + custom("lead", "openai", "", model("lead-big", "10", "low", "one"), model("lead-mini", "1", "low", "one")) +
		custom("rival", "anthropic", "", model("rival-big", "9", "maximum", "two"), model("rival-mini", "0.5", "low", "two")) +
		custom("quiet", "openai", ", private: true", model("quiet-big", "8", "low", "three"), model("quiet-mini", "0.8", "low", "three")) +
		custom("hushed", "openai", ", private: true", model("hushed-big", "7", "maximum", "four"), model("hushed-mini", "0.4", "low", "four")) +
		custom("helper", "openai", "", model("helper-mini", "0.1", "maximum", "five")) +
		fmt.Sprintf("  openrouter: {endpoint: %q, byok: true, models: [%s, %s]}\n", broad.URL, strings.Replace(model("broad-big", "10", "low", "six"), "upstream_id: ", "upstream_id: maker/", 1), strings.Replace(model("broad-mini", "0.2", "low", "six"), "upstream_id: ", "upstream_id: maker/", 1))
	g := gateway.Run(t, gateway.Options{Config: config})
	all["openrouter"] = broad
	keys := map[string]string{}
	for _, plan := range []string{"free", "pro"} {
		keys[plan] = g.CreateKey(t, "--name", plan, "--tier", plan).Key
	}
	const private, confidential = "X-Bardo-Security-Class: private", "X-Bardo-Security-Class: confidential"
	const verify, escalate = "X-Bardo-Verify: true", "X-Bardo-Escalate: auto"
	agent := "X-Bardo-Subsystem: heartbeat_t1"
	rows := []struct {
		about, plan, model string
		header             []string
		may                []string // providers that may have the request, or a call for it
		side               string   // a provider that must have been called beside, while all are healthy; "" for none
	}{
		{"private", "pro", "quiet-big", []string{private}, []string{"quiet"}, "quiet"},
		{"private, verified", "pro", "quiet-big", []string{private, verify}, []string{"quiet", "hushed"}, "hushed"},
		{"private, escalated", "pro", "quiet-big", []string{private, agent, escalate, "X-Bardo-Pipeline: standard"}, []string{"quiet", "hushed"}, "quiet"},
		{"confidential", "free", "lead-big", []string{confidential}, []string{"lead"}, "lead"},
		{"confidential, verified", "free", "lead-big", []string{confidential, verify}, []string{"lead", "rival", "quiet", "hushed"}, ""},
		{"confidential, escalated", "free", "lead-big", []string{confidential, agent, escalate, "X-Bardo-Pipeline: standard"}, []string{"lead", "rival", "quiet", "hushed"}, ""},
		{"privacy is preferred, and there", "pro", "quiet-big", []string{"X-Bardo-Prefer: privacy", verify}, []string{"quiet", "hushed"}, "quiet"},
		{"a plan", "free", "lead-big", nil, []string{"lead", "rival", "quiet", "hushed"}, "hushed"},
		{"a plan, verified", "free", "lead-big", []string{verify}, []string{"lead", "rival", "quiet", "hushed"}, ""},
		{"a provider that is named", "pro", "rival/rival-big", []string{verify}, []string{"rival"}, "rival"},
		{"a key that the request brings", "pro", "broad-big", []string{"X-Bardo-Upstream-Key: " + brought, verify}, []string{"openrouter"}, ""},
		{"nothing restricts it", "pro", "lead-big", nil, []string{"lead", "rival", "quiet", "hushed", "helper"}, "helper"},
	}
	n := 0
	for _, b := range outcomes {
		outcome := b.name
		for _, s := range all {
			s.Behave(outcomes[0].Behaviour)
			for _, m := range []string{"lead-mini", "rival-mini", "quiet-mini", "hushed-mini", "helper-mini", "maker/broad-mini", "hushed-big"} {
				s.BehaveFor(m, b.Behaviour)
			}
			s.BehaveFor("quiet-big", fake.Behaviour{JSON: decision("observe", 0.9, true)})
			s.BehaveFor("lead-big", fake.Behaviour{JSON: decision("observe", 0.9, true)})
		}
		t.Run(outcome, func(t *testing.T) {
			for _, row := range rows {
				for _, stream := range []bool{false, true} {
					n++
					h := history{model: row.model, secret: fmt.Sprintf("secret%dx", n), turns: 14, stream: stream, more: `,"max_tokens":200`}
					t.Run(fmt.Sprintf("%s/stream=%v", row.about, stream), func(t *testing.T) {
						t.Parallel()
						got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: keys[row.plan], Header: row.header, Body: h.body("What is next?")})
						var saw []string
						times := 0
						for name, s := range all {
							if k := s.Times(h.secret); k > 0 {
								saw, times = append(saw, name), times+k
							}
						}
						for _, name := range saw {
							if !slices.Contains(row.may, name) {
								t.Errorf("%s has it (%s)", name, got.Header.Get("X-Bardo-Pipeline"))
							}
						}
						if outcome == "healthy" && (got.Status != http.StatusOK || row.side != "" && (!slices.Contains(saw, row.side) || times < 2)) {
							t.Errorf("%d; it went to %v, %d times: %+v: %.300s", got.Status, saw, times, sideRecordOf(t, g, keys[row.plan], got), got.Body)
						}
					})
				}
			}
		})
	}
	for name, s := range all {
		for _, r := range s.Generations() {
			if r.Key() == brought && name != "openrouter" {
				t.Errorf("%s has a key that a request brought for another", name)
			}
		}
	}
	g.AssertSound(t)
}
