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

// assessment is a RiskAssessment.
func assessment(approved bool, size int, detail string) string {
	layer := fmt.Sprintf(`{"passed":true,"score":0.9,"detail":%q}`, detail)
	return fmt.Sprintf(`{"approved":%v,"adjusted_size_usd":%d,"layers":{"hard_shields":%s,"position_sizing":%s,"adaptive_guardrails":%s,`+
		`"observation":%s,"defi_threats":%s},"warnings":[],"reasoning":null}`, approved, size, layer, layer, layer, layer, layer)
}

// startTwoFamilies starts a gateway with two models of different families at different providers, which are asked for by their names.
func startTwoFamilies(t *testing.T, config string) (g *gateway.Gateway, lead, other *fake.Server) {
	t.Helper()
	lead = fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "lead"})
	other = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
	g = gateway.Run(t, gateway.Options{Config: quick + config, Providers: []gateway.Provider{
		{ID: "lead", Fake: lead, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 1, output: 2}"}}},
		{ID: "other", Fake: other, Models: []gateway.Model{{ID: "gpt-4.1", Price: "{input: 3, output: 4}"}}},
	}})
	return g, lead, other
}

// says has a fake give an answer, in the form that is asked for or in words, and report what makes it cost something that can be told.
func says(s *fake.Server, json string, input, output int) {
	s.Behave(fake.Behaviour{JSON: json, Usage: &fake.Usage{Input: input, Output: output}})
}

// verifiedRecord is what a request's record says of its verification and of its bill.
type verifiedRecord struct {
	Provider     string
	Attempts     int
	Path         string
	Cost         json.Number `json:"provider_cost_usd"`
	InputTokens  int         `json:"input_tokens"`
	Degraded     []string
	Verification *struct {
		Result     string
		Reason     string
		By         struct{ Provider, Model string }
		Given      string
		StricterBy string `json:"stricter_by"`
		Fields     []struct {
			Path  string
			Agree bool
		}
	}
	Escalation *struct {
		From, To, Reason string
		By               struct{ Provider, Model string } `json:"asked_first"`
	}
}

func verifiedBy(t testing.TB, g *gateway.Gateway, key string, got gateway.Answer) (r verifiedRecord) {
	t.Helper()
	get(t, g, key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
	return r
}

// verdictOf is X-Bardo-Verified, or what stands in its place at the end of a stream.
func wordOf(t testing.TB, got gateway.Answer, header, member string) string {
	t.Helper()
	if word := got.Header.Get(header); word != "" || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		return word
	}
	for _, ev := range got.Events(t) {
		text, ok := strings.CutPrefix(ev.Comment, "bardo ")
		var c map[string]any
		if ok && json.Unmarshal([]byte(text), &c) == nil {
			word, _ := c[member].(string)
			return word
		}
	}
	return ""
}

var (
	lax    = assessment(true, 1000, "fine")
	strict = assessment(false, 0, "by no means")
)

// the same is asked of two models of different families, and the stricter decision is given as a whole, whoever came first, in every
// client's format, streamed or not, and both are paid for.
func TestR29TheStricterOfTwoAnswersIsGiven(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	for _, row := range []struct {
		about, first, second string
		given                string // provider
		want, header         string
		stricterBy           string
	}{
		{"agree", lax, assessment(true, 980, "also fine"), "lead", lax, "agreed; by=other/gpt-4.1; fields=12/12", ""},
		{"the second is stricter", lax, strict, "other", strict, "disagreed; by=lead/claude-opus-4-6; fields=10/12", "approved"},
		{"the first is stricter", strict, lax, "lead", strict, "disagreed; by=other/gpt-4.1; fields=10/12", "approved"},
	} {
		for _, s := range shapers {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stream=%v", row.about, s, stream), func(t *testing.T) {
					lead.Forget()
					other.Forget()
					says(lead, row.first, 1000, 100)
					says(other, row.second, 2000, 50)
					before := balanceOf(t, g, key)
					c := s.call("claude-opus-4-6", stream, "May it?", "", "X-Bardo-Subsystem: risk", "X-Bardo-Verify: true")
					c.Key = key
					got := g.Do(t, c)
					if text := s.text(t, got, stream); text != row.want {
						t.Errorf("says %s", text)
					}
					if word := wordOf(t, got, "X-Bardo-Verified", "verified"); s != "gemini" && word != row.header || got.Header.Get("X-Bardo-Provider") != row.given {
						t.Errorf("given by %s, verified %q", got.Header.Get("X-Bardo-Provider"), word)
					}
					if a, b := len(lead.Generations()), len(other.Generations()); a != 1 || b != 1 {
						t.Errorf("%d and %d calls", a, b)
					}
					r := verifiedBy(t, g, key, got)
					v := r.Verification
					if v == nil || v.StricterBy != row.stricterBy || len(v.Fields) != 12 || v.Fields[0].Path != "approved" ||
						v.Fields[0].Agree != (row.stricterBy == "") || (v.Given == "second") != (row.given == "other") {
						t.Errorf("the record says %+v", v)
					}
					if r.Cost != "0.0074" || r.InputTokens != 3000 || r.Attempts != 2 || slices.Contains(r.Degraded, "cross_verify") {
						t.Errorf("billed %+v", r)
					}
					if paid := before - balanceOf(t, g, key); paid != 8_880 {
						t.Errorf("%d were taken from the balance", paid)
					}
				})
			}
		}
	}
	g.AssertSound(t)
}

// answers in a form of the caller's own, and those in none, have no stricter one: the first is given, and what differs is told.
func TestR29WhatHasNoOrderIsComparedAlone(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	for _, row := range []struct {
		about, more, first, second, want string
	}{
		{"a caller's own schema", shaper("openai").schema("person", personSchema), `{"name":"Ada","age":36}`, `{"name":"ada","age":30}`, "disagreed; by=other/gpt-4.1; fields=1/2"},
		{"text that differs", "", "Yes, it may.", "No.", "disagreed; by=other/gpt-4.1; fields=0/1"},
		{"text that does not", "", "Yes.", "yes", "agreed; by=other/gpt-4.1; fields=1/1"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", row.about, stream), func(t *testing.T) {
				for s, text := range map[*fake.Server]string{lead: row.first, other: row.second} {
					b := fake.Behaviour{Text: text}
					if row.more != "" {
						b = fake.Behaviour{JSON: text}
					}
					s.Behave(b)
				}
				got := g.Do(t, shaper("openai").call("claude-opus-4-6", stream, "May it?", row.more, "X-Bardo-Verify: true"))
				if text := shaper("openai").text(t, got, stream); text != row.first || got.Header.Get("X-Bardo-Provider") != "lead" {
					t.Errorf("%s says %s", got.Header.Get("X-Bardo-Provider"), text)
				}
				if word := wordOf(t, got, "X-Bardo-Verified", "verified"); word != row.want {
					t.Errorf("verified %q", word)
				}
			})
		}
	}
	g.AssertSound(t)
}

// where one of two fails, or gives nothing good, the other one's answer is given, and nothing is said to be verified.
func TestR29OneAnswerIsBetterThanNone(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	good, bad := fake.Behaviour{JSON: lax}, fake.Behaviour{Status: http.StatusInternalServerError}
	prose := fake.Behaviour{Flaw: fake.ProseOnly}
	for _, row := range []struct {
		about         string
		first, second fake.Behaviour
		given         string
	}{
		{"the second fails", good, bad, "lead"},
		{"the first fails", bad, good, "other"},
		{"the second gives nothing good", good, prose, "lead"},
		{"the first gives nothing good", prose, good, "other"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", row.about, stream), func(t *testing.T) {
				lead.Behave(row.first)
				other.Behave(row.second)
				got := g.Do(t, shaper("anthropic").call("claude-opus-4-6", stream, "May it?", "", "X-Bardo-Subsystem: risk", "X-Bardo-Verify: true"))
				if text := shaper("anthropic").text(t, got, stream); text != lax || got.Header.Get("X-Bardo-Provider") != row.given {
					t.Errorf("%s says %s", got.Header.Get("X-Bardo-Provider"), text)
				}
				word := wordOf(t, got, "X-Bardo-Verified", "verified")
				if !strings.HasPrefix(word, "skipped; reason=failed") {
					t.Errorf("verified %q", word)
				}
				if r := verifiedBy(t, g, g.Key, got); r.Verification == nil || r.Verification.Result != "skipped" || !slices.Contains(r.Degraded, "cross_verify") {
					t.Errorf("the record says %+v", r)
				}
			})
		}
	}
	t.Run("both fail", func(t *testing.T) {
		lead.Behave(bad)
		other.Behave(bad)
		got := g.Do(t, shaper("openai").call("claude-opus-4-6", false, "May it?", "", "X-Bardo-Verify: true"))
		if got.Status != http.StatusBadGateway {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	})
	g.AssertSound(t)
}

// D-05: what is private is not shown to another provider for the sake of a second opinion.
func TestD05APrivateRequestStaysPrivateThoughItWantsAnOpinion(t *testing.T) {
	t.Parallel()
	quiet := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "quiet"})
	loud := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "loud"})
	hushed := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "hushed"})
	alone := []gateway.Provider{
		{ID: "quiet", Fake: quiet, Models: models("llama-3.3-70b", ""), More: "private: true"},
		{ID: "loud", Fake: loud, Models: models("gpt-4.1", "")},
	}
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			call := shaper("openai").call("llama-3.3-70b", stream, "a secret of ours", "", "X-Bardo-Verify: true", "X-Bardo-Security-Class: private")
			g := gateway.Run(t, gateway.Options{Config: quick, Providers: alone})
			got := g.Do(t, call)
			if s := shaper("openai").text(t, got, stream); s == "" || got.Header.Get("X-Bardo-Provider") != "quiet" {
				t.Errorf("%s says %q", got.Header.Get("X-Bardo-Provider"), s)
			}
			if got.Header.Get("X-Bardo-Verified") != "skipped; reason=no_second_model" || !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "cross_verify") {
				t.Errorf("headers %v", got.Header)
			}
			g = gateway.Run(t, gateway.Options{Config: quick, Providers: append(slices.Clone(alone),
				gateway.Provider{ID: "hushed", Fake: hushed, Models: models("qwen3-32b", ""), More: "private: true"})})
			got = g.Do(t, call)
			if word := wordOf(t, got, "X-Bardo-Verified", "verified"); word != "agreed; by=hushed/qwen3-32b; fields=1/1" {
				t.Errorf("verified %q", word)
			}
			if loud.Saw("a secret of ours") {
				t.Error("the secret was told")
			}
		})
	}
}

// The subsystem risk is verified where a provider is there for it, without a word of the request's, and not where the operator or
// the request leaves no room for it.
func TestR29RiskIsVerifiedByWhoIsThereForIt(t *testing.T) {
	t.Parallel()
	lead := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "lead"})
	bankr := fake.Start(t, fake.Config{Vendor: "bankr"})
	says(lead, lax, 10, 10)
	says(bankr, strict, 10, 10)
	providers := []gateway.Provider{
		{ID: "lead", Fake: lead, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 1, output: 2}"}}},
		{ID: "bankr", Fake: bankr, Models: []gateway.Model{{ID: "gpt-4.1", Price: "{input: 1, output: 2}"}}},
	}
	for _, row := range []struct {
		about, config, model, subsystem, want string
	}{
		{"auto", "", "auto", "risk", "disagreed; by=lead/claude-opus-4-6"},
		{"a model that is named", "", "claude-opus-4-6", "risk", "disagreed; by=lead/claude-opus-4-6"},
		{"a provider that is named", "", "lead/claude-opus-4-6", "risk", ""},
		{"another part", "", "claude-opus-4-6", "curator", ""},
		{"off", "inference: {verification: {risk: off}}", "claude-opus-4-6", "risk", ""},
		{"always, and a provider that is named", "inference: {verification: {risk: always}}", "lead/claude-opus-4-6", "risk", "skipped; reason=no_second_model"},
	} {
		t.Run(row.about, func(t *testing.T) {
			g := gateway.Run(t, gateway.Options{Config: quick + row.config, Providers: providers})
			got := g.Chat(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"May it?"}]}`, row.model), "X-Bardo-Subsystem: "+row.subsystem)
			if got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			if word := got.Header.Get("X-Bardo-Verified"); !strings.HasPrefix(word, row.want) || (word == "") != (row.want == "") {
				t.Errorf("verified %q, want %q", word, row.want)
			}
		})
	}
}

// K-40: a stream that waits for a second opinion is kept alive, and its answer comes when both are there.
func TestK40HeartbeatsWhileASecondOpinionIsWaitedFor(t *testing.T) {
	t.Parallel()
	lead := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "lead"})
	other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
	config := strings.Replace(quick, "idle: 50s", "idle: 50s, heartbeat: 100ms", 1)
	g := gateway.Run(t, gateway.Options{Config: config, Providers: []gateway.Provider{
		{ID: "lead", Fake: lead, Format: "anthropic", Models: models("claude-opus-4-6", "")},
		{ID: "other", Fake: other, Models: models("gpt-4.1", "")},
	}})
	says(lead, lax, 10, 10)
	other.Behave(fake.Behaviour{JSON: strict, FirstToken: 700 * time.Millisecond})
	got := g.Do(t, shaper("anthropic").call("claude-opus-4-6", true, "May it?", "", "X-Bardo-Subsystem: risk", "X-Bardo-Verify: true"))
	if text := shaper("anthropic").text(t, got, true); text != strict {
		t.Errorf("says %s", text)
	}
	if !strings.Contains(got.Body, ": heartbeat\n") || !strings.Contains(got.Body, `"verified":"disagreed; by=lead/claude-opus-4-6; fields=10/12"`) {
		t.Errorf("the stream is %s", got.Body)
	}
}

// A verified answer is stored for those who ask for a verified one, and for nobody else.
func TestVerifiedAnswersAreStoredApart(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	says(lead, lax, 10, 10)
	says(other, strict, 10, 10)
	verify := []string{"X-Bardo-Subsystem: risk", "X-Bardo-Cache: force", "X-Bardo-Verify: true"}
	ask := func(header ...string) gateway.Answer {
		return g.Do(t, shaper("openai").call("claude-opus-4-6", false, "May it?", "", header...))
	}
	plain := ask(verify[:2]...)
	first := ask(verify...)
	again := ask(verify...)
	if plain.Header.Get("X-Bardo-Provider") != "lead" || first.Header.Get("X-Bardo-Cache") != "miss" || first.Header.Get("X-Bardo-Provider") != "other" {
		t.Errorf("%v; %v", plain.Header, first.Header)
	}
	if again.Header.Get("X-Bardo-Cache") != "hash" || again.Header.Get("X-Bardo-Verified") != first.Header.Get("X-Bardo-Verified") || again.Header.Get("X-Bardo-Verified") == "" {
		t.Errorf("again: %v", again.Header)
	}
}

// Both models are asked at the same time: neither waits for the other.
func TestR29BothAreAskedAtTheSameTime(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	for _, s := range []*fake.Server{lead, other} {
		s.Behave(fake.Behaviour{JSON: lax, HeaderDelay: 3 * time.Second})
	}
	got := make(chan gateway.Answer, 1)
	go func() {
		got <- g.Do(t, shaper("openai").call("claude-opus-4-6", false, "May it?", "", "X-Bardo-Subsystem: risk", "X-Bardo-Verify: true"))
	}()
	for _, s := range []*fake.Server{lead, other} {
		rs, err := s.WaitGenerations(soon(t), 1)
		if err != nil || rs[0].Done {
			t.Errorf("%v %+v", err, rs)
		}
	}
	if a := <-got; !strings.HasPrefix(a.Header.Get("X-Bardo-Verified"), "agreed") {
		t.Errorf("%d %v", a.Status, a.Header)
	}
}

// What both said stands beside the answer for who asks for it, and in no record and no event.
func TestR29WhatBothSaidIsShownToTheCallerAlone(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "telemetry: {events: stdout}\n")
	says(lead, lax, 10, 10)
	says(other, strict, 10, 10)
	got := g.Do(t, shaper("openai").call("claude-opus-4-6", false, "May it?", "", "X-Bardo-Subsystem: risk", "X-Bardo-Verify: true", "X-Bardo-Reasoning: full"))
	var body struct {
		Bardo struct {
			Verification struct {
				Result     string
				Given      string
				StricterBy string `json:"stricter_by"`
				Fields     []struct {
					Path          string
					Agree         bool
					First, Second any
				}
			}
		}
	}
	got.JSON(t, &body)
	v := body.Bardo.Verification
	if v.Result != "disagreed" || v.Given != "second" || v.StricterBy != "approved" || len(v.Fields) != 12 {
		t.Fatalf("beside the answer: %+v in %s", v, got.Body)
	}
	if f := v.Fields[1]; f.Path != "adjusted_size_usd" || f.Agree || f.First != 1000.0 || f.Second != 0.0 {
		t.Errorf("a field: %+v", f)
	}
	record := g.Do(t, gateway.Call{Path: "/v1/requests/" + got.Header.Get("X-Request-Id")}).Body
	for _, secret := range []string{"1000", "by no means", `"first":`, `"second":`} {
		if strings.Contains(record, secret) {
			t.Errorf("%s in the record %s", secret, record)
		}
	}
	eventually(t, "the event", func() bool { return strings.Contains(g.Log(), `"inference:verified"`) })
	at := strings.Index(g.Log(), `"inference:verified"`)
	line, _, _ := strings.Cut(g.Log()[at:], "\n")
	for _, want := range []string{`"result":"disagreed"`, `"provider":"other"`, `"by_provider":"lead"`, `"agree":10`, `"fields":12`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	if strings.Contains(g.Log(), "by no means") {
		t.Error("an answer was logged")
	}
}

// A client that leaves while it waits for an opinion ends both calls.
func TestR29WhoLeavesEndsBothCalls(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	for _, s := range []*fake.Server{lead, other} {
		s.Behave(fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.AfterHeaders}})
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if res, err := g.Open(ctx, shaper("openai").call("claude-opus-4-6", true, "May it?", "", "X-Bardo-Verify: true")); err == nil {
			_ = res.Body.Close()
		}
	}()
	for _, s := range []*fake.Server{lead, other} {
		if _, err := s.WaitGenerations(soon(t), 1); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	<-gone
	for _, s := range []*fake.Server{lead, other} {
		if _, err := s.WaitCancelled(soon(t), 1); err != nil {
			t.Error(err)
		}
	}
	g.AssertSound(t)
}
